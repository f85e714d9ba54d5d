"""The page Write."""
