"""Pages: a state and blocks each, in a folder of its own."""
