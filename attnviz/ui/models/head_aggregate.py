"""Several heads as one map: the ways to take them together."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from attnviz.analysis.aggregation import aggregate_heads, rollout, value_weighted_map
from attnviz.analysis.head_maps import Aggregate, Map, Special, aggregate_maps, shown_positions
from attnviz.analysis.work import check_work
from attnviz.figures.sentences import GIVES_AT_MOST, GIVES_ON_AVERAGE
from attnviz.layer import Layer
from attnviz.ui import pinned_query
from attnviz.ui.models import attention_kinds
from attnviz.ui.models.selection import LookedAt
from attnviz.ui.models.viewport import OnScreen, on_screen

Head = tuple[int, int]  # a layer, and a head of it


@dataclass(frozen=True)
class Way:
    """A way to take heads or layers together, and what is to be said of it."""

    about: str
    says: str  # of one cell
    how: Aggregate | None = None  # where heads are chosen by hand
    total: str = "{weight} to {key}"  # of several queries together


WAYS = {
    "Mean": Way(
        "Each cell is the mean of the weights that the chosen heads have there.",
        GIVES_ON_AVERAGE,
        Aggregate.MEAN,
    ),
    "Maximum": Way(
        "Each cell is the largest weight that a chosen head has there, so that what one head alone does is seen.",
        GIVES_AT_MOST,
        Aggregate.MAXIMUM,
    ),
    "Minimum": Way(
        "Each cell is the smallest weight that a chosen head has there: what all of them look at.",
        "{query} gives at least {weight} of its attention to {key}, in every one of these heads.",
        Aggregate.MINIMUM,
    ),
    "Rollout": Way(
        "What has come from where after these layers, if each layer takes as much from attention, the mean of its "
        "heads, as it keeps of what was there (Abnar & Zuidema 2020).",
        "{weight} of what is at {query} after these layers comes from {key}.",
        total="{weight} from {key}",
    ),
    "Value-weighted": Way(
        "The weight times the length of the key’s value vector: how much a key adds. One that gets attention but has "
        "next to no value adds next to nothing. As in Kobayashi et al. 2020, but before the layer’s output projection.",
        "{key} adds a vector of length {weight} to {query}.",
        total="a length of {weight} from {key}",
    ),
}


@dataclass(frozen=True, eq=False)
class Taken:
    """A map of several heads together, with all that is said of it."""

    screen: OnScreen
    title: str
    name: str  # of its way
    of: Callable[[slice], Map]  # the exact rows, at all keys
    asked: tuple[object, ...]  # what tells it from other maps
    queries: list[int]  # of all rows, whatever part of them is in view
    keys: list[int]

    @property
    def rows(self) -> list[str]:
        """The queries' names, told apart by their positions."""
        return pinned_query.numbered(self.queries, [self.screen.inputs.query_tokens[i] for i in self.queries])

    def positions(self, rows: Sequence[str]) -> list[int]:
        """Where the queries of these names stand."""
        places = dict(zip(self.rows, self.queries, strict=True))
        return [places[row] for row in rows]

    def name_of(self, row: int, column: int) -> str | None:
        """The query of a cell, or of the name of a row; None where that stands for several."""
        if column >= 0:
            place = self.screen.at(row, column)
            return self.rows[self.queries.index(place[0])] if place else None
        return self.rows[self.queries.index(self.screen.queries[row])] if self.single else None

    @property
    def single(self) -> bool:
        """Whether each row is one query."""
        return len(self.screen.queries) == len(self.screen.weights)


def take(seen: LookedAt, stack: Sequence[int], heads: Sequence[Head], name: str) -> Taken:
    """The heads taken together; raises ValueError, in words, where that cannot be done."""
    inputs, of = seen.shown.inputs, _rows(seen, heads, name)
    work = len(heads) * inputs.queries * inputs.keys
    check_work(work, f"To take {len(heads)} heads together", "Choose fewer heads, or shorten the text.")
    asked = "together", seen.example, name, heads, seen.head == Aggregate.MAXIMUM
    return Taken(
        on_screen(of, inputs, seen.special, seen.part, *asked),
        _title(seen, stack, heads, name),
        name,
        of,
        (*asked, seen.special),
        shown_positions(inputs.queries, inputs.special_queries, seen.special),
        shown_positions(inputs.keys, inputs.special_keys, seen.special),
    )


def _rows(seen: LookedAt, heads: Sequence[Head], name: str) -> Callable[[slice], Map]:
    """What gives the weights of the queries in a slice, special tokens left out as they are to be."""
    layers, mechanisms, special = seen.layers, [layer.mechanism for layer in seen.layers], seen.special
    inputs, how = seen.shown.inputs, WAYS[name].how
    if how is not None:
        return lambda rows: aggregate_heads(layers, mechanisms, heads, how, special, rows)
    if name == "Value-weighted":
        best = Aggregate.MAXIMUM if seen.head == Aggregate.MAXIMUM else Aggregate.MEAN
        return lambda rows: aggregate_maps(
            (value_weighted_map(inputs, mechanisms[layer], head, special, rows) for layer, head in heads), best
        )
    through = sorted({layer for layer, _ in heads})
    stack = [layers[i] for i in through], [mechanisms[i] for i in through]
    whole = lru_cache(1)(lambda: rollout(*stack))  # every block of rows needs all that is below
    queries = set(shown_positions(inputs.queries, inputs.special_queries, special))
    keys = shown_positions(inputs.keys, inputs.special_keys, special)

    def rolled(rows: slice) -> Map:
        positions = [i for i in range(inputs.queries)[rows] if i in queries]
        found = (rollout(*stack, positions) if len(positions) == 1 else whole()[positions])[:, keys]
        return found / found.sum(-1, keepdim=True) if special == Special.RESCALED else found

    return rolled


def _title(seen: LookedAt, stack: Sequence[int], heads: Sequence[Head], name: str) -> str:
    """What the map is."""
    if name == "Rollout":
        layers = [seen.layers[i].name for i in sorted({layer for layer, _ in heads})]
        return f"Rollout, {layers[0]} to {layers[-1]}" if len(layers) > 1 else f"Rollout, {layers[0]}"
    names = written(seen.layers, heads)
    if len(stack) > 1 and len(heads) == sum(seen.layers[i].inputs.heads for i in stack):
        names = [f"all {len(heads)} heads{whose(seen, stack)}"]
    elif len(names) > 3:
        names = [f"{len(heads)} heads"]
    return f"{name}, {' + '.join(names)}" if name == "Value-weighted" else f"{name} of {' and '.join(names)}"


def whose(seen: LookedAt, stack: Sequence[int]) -> str:
    """The layer, or the kind of attention, where there are others too."""
    if len(stack) == 1:
        return f" of {seen.shown.name}"
    return (
        ""
        if len(stack) == len(seen.layers)
        else f" of {attention_kinds.called(seen.shown, seen.model.is_encoder_decoder).lower()}"
    )


def written(layers: Sequence[Layer], heads: Collection[Head]) -> list[str]:
    """The names of these heads, a layer's own where all of its heads are among them."""
    names: list[str] = []
    for i, layer in enumerate(layers):
        ours = sorted(head for at, head in heads if at == i)
        whole = len(ours) == layer.inputs.heads
        names += [layer.name] if whole else [f"{layer.name}, head {head}" for head in ours]
    return names
