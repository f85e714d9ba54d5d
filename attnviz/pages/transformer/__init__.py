"""The page Transformer."""
