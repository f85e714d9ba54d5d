"""What every source is: settings that give layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from attnviz.layer import Layer


@dataclass(frozen=True)
class Opening:
    """What a page shows first: the positions of a layer, of one of its heads, and of a pinned query, if any."""

    layer: int = 0
    head: int = 0
    query: int | None = None


class NothingYet(ValueError):
    """Nothing has been brought yet: no mistake, and the message says what to bring."""


class Source:
    """A frozen dataclass of settings. Its docstring is the help on screen, its fields are the widgets; the first
    field is what a person brings. `repr` tells two of them apart, so it is the key under which results are kept.
    """

    private: ClassVar[bool] = False  # a person brings a file: it stays in the session, and samples are offered

    @property
    def opening(self) -> Opening:
        return Opening()

    def layers(self) -> Sequence[Layer]:
        """The attention layers of one example. Raises ValueError, in words for the person at the screen."""
        raise NotImplementedError
