"""The pages' parts."""
