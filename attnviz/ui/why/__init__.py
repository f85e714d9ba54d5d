"""The Why page."""
