"""The parts of the Write page."""
