"""What the page Transformer shows."""
