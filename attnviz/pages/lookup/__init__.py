"""The page Lookup."""
