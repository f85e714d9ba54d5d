"""The viewer of a model that is writing: its maps grow by a row with each token."""

import time
from collections.abc import Generator, Sequence
from contextlib import closing
from threading import Event, Thread
from typing import Any

import traitlets
from markupsafe import Markup

from attnviz.layer import Layer
from attnviz.notebook.page_viewer import unique_key
from attnviz.notebook.shown_heads import ShownLayers, states_of
from attnviz.notebook.widget import AttentionWidget

SHOWN_CHARACTERS = 60  # of what was written last
MOSAIC_SECONDS = 2.0  # until the small maps of all heads are computed again
WITHOUT_KERNEL = (
    "The model wrote here while the notebook ran. To keep the picture, show the steps: attnviz.show(viewer.steps)."
)


class WritingWidget(AttentionWidget):
    """A viewer that follows the steps of `attnviz.writing` in a thread of its own, so that the notebook goes on.

    `steps` are those so far. The newest query is pinned until another one is chosen.
    """

    # How many steps there are, and what is written, or why nothing more is; empty at the end.
    _growth: traitlets.List[Any] = traitlets.List([1, ""]).tag(sync=True)

    def __init__(
        self, steps: Generator[Any, None, None], layer: int = 0, head: int = 0, query: int | None = None
    ) -> None:
        first = next(steps)
        self.steps = [first]
        self._error: Exception | None = None
        self._is_stopped = Event()
        newest = first.trace[layer].inputs.queries - 1
        self._mosaic, self._mosaic_time = "", 0.0
        super().__init__(self._source(first.trace.layers), layer, head, newest if query is None else query)
        self._thread = Thread(target=self._follow, args=(steps,), daemon=True)
        self._thread.start()

    @property
    def is_writing(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Ends the text after the token that is being written."""
        self._is_stopped.set()
        self._thread.join()

    def wait(self, seconds: float | None = None) -> None:
        """Waits until the text is written, at most for a number of seconds. Raises what the model has raised."""
        self._thread.join(seconds)
        if self._error is not None:
            raise self._error

    def _output(self, wait: int = 0) -> Markup:
        """Returns what takes the place of the widget where no kernel runs: the text grows after the cell has run."""
        return Markup('<div data-attnviz="{}">{}</div>').format(self.key, WITHOUT_KERNEL)

    def _follow(self, steps: Generator[Any, None, None]) -> None:
        try:
            with closing(steps):
                for step in steps:
                    self._show(step)
                    if self._is_stopped.is_set():
                        break
            self._mosaic_time = 0
            self._grow(self.layers, "")
        except Exception as error:  # noqa: BLE001 raised again by wait(): nobody sees it in this thread
            self._error = error
            self._growth = [len(self.steps), str(error)]

    def _show(self, step: Any) -> None:
        """Adds a step. Raises ValueError if a layer is missing in it."""
        layers = step.trace.layers
        if len(layers) < len(self.layers):
            raise ValueError(step.trace.missing[-1])
        self.steps.append(step)
        is_newest = self.query == self.layers[self.layer].inputs.queries - 1
        self._grow(layers, "".join(one.token for one in self.steps)[-SHOWN_CHARACTERS:])
        if is_newest:
            self.query = layers[self.layer].inputs.queries - 1

    def _grow(self, layers: Sequence[Layer], status: str) -> None:
        self.states = states_of(self._source(layers))
        self._growth = [len(self.steps), status]

    def _source(self, layers: Sequence[Layer]) -> ShownLayers:
        """Returns the layers, with small maps of a moment ago while a model writes."""
        key = unique_key()
        if time.monotonic() - self._mosaic_time > MOSAIC_SECONDS:
            self._mosaic, self._mosaic_time = key, time.monotonic()
        return ShownLayers(key, layers, mosaic=self._mosaic)
