"""Captures: the queries, keys and values, or at least the weights, of all attention in a model."""

from attnviz.tracing.model_lock import model_lock
from attnviz.tracing.observation import capturing
from attnviz.tracing.single_capture import capture
from attnviz.tracing.traces import Traces

__all__ = ["Traces", "capture", "capturing", "model_lock"]
