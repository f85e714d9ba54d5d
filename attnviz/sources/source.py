"""The interface of sources: dataclasses of settings that make layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from attnviz.layer import Layer


@dataclass(frozen=True)
class Opening:
    """The initial selection of a page: the indices of a layer, of one of its heads, and of a pinned query, if any."""

    layer: int = 0
    head: int = 0
    query: int | None = None


class MissingInput(ValueError):
    """The input is still missing. Not an error of the user; the message asks for it."""


class Source:
    """A frozen dataclass of settings. Its docstring is the help on screen, its fields are the widgets; the first
    field is the input, such as the text or the file. Its repr is the cache key."""

    keeps_layers: ClassVar[bool] = False  # whether `layers` keeps its results itself, and takes its turn

    @property
    def subject(self) -> tuple[str, ...]:
        """The subject of all its pictures, whatever else is typed: its kind, and the model or the trace."""
        return (type(self).__name__,)

    @property
    def opening(self) -> Opening:
        return Opening()

    @property
    def own_example(self) -> "Source":
        """The example of its kind, of the same model if that has one."""
        return type(self)()

    @property
    def weights_note(self) -> str:
        """The name of its model with the precision of its weights, where that is less than the original's."""
        return ""

    @property
    def work(self) -> int:
        """The approximate number of steps that it takes to make the layers (analysis/work.py)."""
        return 0

    def layers(self) -> Sequence[Layer]:
        """Returns the attention layers of one example. Raises ValueError if they cannot be made."""
        raise NotImplementedError
