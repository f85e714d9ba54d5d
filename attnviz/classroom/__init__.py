"""Live classes: what a teacher shows and asks, and what the participants answer, in a small store."""
