"""What Write shows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from attnviz.analysis.head_maps import head_map
from attnviz.figures import Chart, heatmap
from attnviz.figures.chart_spec import HeatmapSpec
from attnviz.figures.sentences import label
from attnviz.figures.themes import WEIGHTS
from attnviz.formatting import SPACE
from attnviz.language import N_, _
from attnviz.lessons.checks import Quantities
from attnviz.page.page_view import PageView
from attnviz.state.selection import Selection
from attnviz.state.write import WriteState
from attnviz.views.explore import pinned_quantities
from attnviz.views.selected_maps import HeadMap, map_panel, selected_map

if TYPE_CHECKING:  # with huggingface_hub
    from attnviz.models.generation import Step
    from attnviz.models.written_text import WrittenText

ROLE_NAMES = {"system": N_("system"), "user": N_("user"), "assistant": N_("assistant")}
ENDINGS = {  # by the values of Ending
    "": "",
    "count": "",
    "end token": N_("The model ended its text here."),
    "stop string": N_("The model's settings end a text at these characters."),
    "limit": N_("No more tokens fit."),
    "seconds": N_("The time for one text is over."),
}
TO_COME = f"<span style='color:rgba(0,0,0,0)'>{'n' * 14}</span>"


@dataclass(frozen=True, eq=False)
class WrittenRows:
    """The weights of the selected head with which tokens were written: a row for each of them."""

    text: "WrittenText"
    selection: Selection

    @property
    def query_offset(self) -> int:
        """The position among all tokens of the query of row 0 of the map."""
        return self.text.encoder_length

    @property
    def key_offset(self) -> int:
        """The position among all tokens of the key of column 0 of the map."""
        return 0 if self.selection.layer.id.cross else self.text.encoder_length

    def weights(self, first: int = 0) -> Float[np.ndarray, "rows keys"]:
        """Returns the rows of the map from the first one on, NaN where not allowed; none if it has no more."""
        layer = self.selection.layer
        if first >= layer.inputs.queries:
            return np.zeros((0, layer.inputs.keys), "f4")
        return head_map(layer.inputs, layer.mechanism, self.selection.head, rows=slice(first, None)).numpy()


def write_view(state: WriteState) -> PageView:
    """Returns the map of the selected head, and the quantities of the pinned query, or of the last written token."""
    selection = state.selection
    shown = selected_map(selection)
    row = state.pinned if state.pinned is not None else len(selection.queries) - 1
    quantities: Quantities = pinned_quantities(selection, shown, row)
    return PageView((map_panel(shown, selection.title, row),), quantities, colors=state.colors)


def written_content(text: "WrittenText", start: int = 0) -> dict[str, Any]:
    """Returns what the browser needs of a text (ui/write/types.d.ts), with the steps from number `start` on."""
    return {
        "tokens": text.parts,
        "special": text.special,
        "roles": text.roles,
        "prompt": text.prompt_length,
        "steps": [_step(step) for step in text.steps[start:]],
        "ending": _(ENDINGS[text.ending]),
        "colors": WEIGHTS,
    }


def _step(step: "Step") -> dict[str, Any]:
    alternatives = [(one.token_id, one.token, one.probability) for one in step.alternatives]
    return {"id": step.token_id, "probability": step.probability, "alternatives": alternatives}


def with_roles(figure: Chart[HeatmapSpec], rows: WrittenRows) -> Chart[HeatmapSpec]:
    """Returns the figure of a map with the roles of a chat in its labels."""
    spec = figure.spec
    queries = role_labels(spec.query_labels, rows.text, rows.query_offset)
    keys = role_labels(spec.key_labels, rows.text, rows.key_offset)
    return replace(figure, spec=replace(spec, query_labels=queries, key_labels=keys))


def role_labels(labels: Sequence[str], text: "WrittenText", start: int) -> tuple[str, ...]:
    """Returns the labels of the tokens that were read from position `start` on, of a chat with the role in that of the
    first token of each message, in bold."""
    named = [*labels]
    for i, (before, role) in enumerate(pairwise(("", *text.roles[:-1]))):  # the last written token was not read
        if role not in ("", before) and start <= i < start + len(named):
            named[i - start] = f"<b>{_(ROLE_NAMES[role])}: {named[i - start].removeprefix(SPACE)}</b>"
    return tuple(named)


def growing_map(shown: HeadMap, length: int) -> Chart[HeatmapSpec]:
    """Returns the figure of a map with blank cells for `length` more rows, and of self-attention as many columns."""
    more = length if len(shown.query_tokens) == len(shown.key_tokens) else 0
    weights = np.pad(shown.weights, ((0, length), (0, more)), constant_values=np.nan)
    blank = np.zeros(weights.shape, bool)
    blank[len(shown.weights) :] = True
    queries, keys = (*shown.query_tokens, *[""] * length), (*shown.key_tokens, *[""] * more)
    figure = heatmap(weights, queries, keys, blank=blank, sentences=shown.sentences, fan=False)
    # Names that are still to come take room, and are not seen.
    query_labels, key_labels = (tuple(label(text) if text else TO_COME for text in texts) for texts in (queries, keys))
    spec = replace(figure.spec, query_labels=query_labels, key_labels=key_labels)
    return replace(figure, spec=spec)
