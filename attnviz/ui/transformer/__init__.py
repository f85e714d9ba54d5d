"""The parts of the Transformer page."""
