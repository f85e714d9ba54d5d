"""How much may be held of what grows with the square of the tokens."""

from attnviz.formatting import byte_size

MOST = 256 << 20  # bytes, for all layers of a capture together


class Unshown(Exception):
    """Why a layer cannot be shown, as the end of a sentence that begins with its name."""


class Room:
    def __init__(self, most: int = MOST) -> None:
        self.most = self.left = most

    def take(self, size: int, what: str) -> None:
        """Makes room for so many bytes, or raises Unshown."""
        if size > self.left:
            raise Unshown(
                f"{what} would take {byte_size(size)}, and {byte_size(self.left)} of {byte_size(self.most)} are left "
                "for all layers. Give it fewer tokens"
            )
        self.left -= size
