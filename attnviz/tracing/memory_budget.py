"""A budget for the memory of a capture that grows with the square of the number of tokens."""

from attnviz.base.formatting import byte_size

MOST_BYTES = 256 << 20  # bytes, for all layers of a capture together


class NotCaptured(Exception):
    """A layer cannot be captured; the message is the end of a sentence that begins with its name."""


class MemoryBudget:
    """The bytes that a capture may still use for masks, biases and weights.

    Example:
        >>> budget = MemoryBudget(100)
        >>> budget.reserve(60, "its weights")
        >>> budget.left
        40
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = self.left = most

    def reserve(self, size: int, purpose: str) -> None:
        """Reserves `size` bytes. Raises NotCaptured if fewer are left."""
        self.check(size, purpose)
        self.left -= size

    def check(self, size: int, purpose: str) -> None:
        """Raises NotCaptured if fewer than `size` bytes are left."""
        if size > self.left:
            raise NotCaptured(
                f"{purpose} would take {byte_size(size)}, and {byte_size(self.left)} of {byte_size(self.most)} "
                "are left for all layers. Give it fewer tokens"
            )
