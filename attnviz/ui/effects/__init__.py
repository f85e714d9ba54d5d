"""The Effects page: what a part of a model does, measured by taking it away."""
