"""How much may be held of what grows with the square of the tokens."""

from attnviz.formatting import megabytes

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
                f"{what} would take {megabytes(size)}, and {megabytes(self.left)} of {megabytes(self.most)} are left "
                "for all layers. Give it fewer tokens"
            )
        self.left -= size
