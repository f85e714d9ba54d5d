"""The parts of the Models page."""
