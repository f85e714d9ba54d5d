"""Attention as a soft dictionary, and its derivatives."""
