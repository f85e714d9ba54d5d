"""The page Effects."""
