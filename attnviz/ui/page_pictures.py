"""What a page shows when a link opens it, as maps and numbers, without the page: for handouts and the lesson editor."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.head_maps import Special
from attnviz.biases import BIASES
from attnviz.language import _, option_name
from attnviz.lessons.checks import Quantities, row_quantities, rows_quantities
from attnviz.lessons.lesson_files import State
from attnviz.lessons.lookup import SIDE, SOFTNESS, Dictionary
from attnviz.lessons.steps import SentenceExample, compute_steps
from attnviz.masks import parse
from attnviz.mechanism import Mechanism
from attnviz.normalizers import NORMALIZERS
from attnviz.scores import SCORES, Additive, General, Score
from attnviz.sources import Pretrained, Source, Toy
from attnviz.ui import cache, pinned_query, source_picker
from attnviz.ui.head_controls import AGGREGATES, SPECIAL, head_names
from attnviz.ui.head_map import selected_map
from attnviz.ui.link_objects import LinkObjects
from attnviz.ui.lookup import controls as lookup
from attnviz.ui.lookup import dictionary_table
from attnviz.ui.masks.comparison import SIDES, compare
from attnviz.ui.masks.mask_editor import START as MASK_START
from attnviz.ui.mechanism_controls import MASK_MENU
from attnviz.ui.scores.similarities import START as SIMILARITIES
from attnviz.ui.selection import Selection
from attnviz.ui.steps import controls as steps
from attnviz.ui.viewport import is_long
from attnviz.ui.widgets import by_title, settings, title

TEXT_SOURCES: tuple[type[Source], ...] = (Pretrained, Toy)  # the others need a file


@dataclass(frozen=True, eq=False)
class Picture:
    """A map, or one row of weights as bars."""

    title: str
    weights: Float[np.ndarray, "queries keys"]  # NaN where not allowed
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    row: int | None = None  # of the pinned query

    @property
    def is_row(self) -> bool:
        """Whether the weights are those of one query alone."""
        return len(self.weights) == 1


@dataclass(frozen=True, eq=False)
class PageContent:
    """The pictures of a page, and its quantities."""

    pictures: tuple[Picture, ...]
    quantities: Quantities
    predicted: bool = False  # whether the reader predicts the pinned row before it is shown


def page_content(page: str, state: State) -> PageContent | None:
    """Returns what a page shows in a state; None if that is known to the page alone."""
    if page not in _PAGES:
        return None
    try:
        return cache.once(lambda: _PAGES[page](LinkObjects(state)), "page content", page, state)
    except ValueError:  # the page shows something else then, with an error
        return None


def _explore(link: LinkObjects) -> PageContent | None:
    if (selection := _selection(link)) is None:
        return None
    start = selection.mechanism
    if not selection.layer.locked:
        mask = link.one_of("Mask", MASK_MENU, start.mask)
        selection = selection.with_mechanism(replace(_scored(link, start), biases=_biases(link, start), mask=mask))
    if selection.layer.inputs.special_keys:
        selection = replace(selection, special=link.option("special-tokens", SPECIAL, Special.SHOWN))
    row = _pinned(link, selection)
    picture = _picture(selection, selection.title, row)
    quantities = row_quantities(picture.key_tokens, picture.weights[row]) if row is not None else {}
    return PageContent((picture,), quantities, link.text("predict") == "true")


def _scores(link: LinkObjects) -> PageContent | None:
    selection = _selection(link)
    if selection is None or selection.layer.locked:
        return None
    start = selection.mechanism
    mask = link.one_of("Mask", MASK_MENU, start.mask)
    selection = selection.with_mechanism(replace(start, biases=_biases(link, start), mask=mask))
    row = _pinned(link, selection)
    if link.text("look") == "Normalizers":
        return None if row is None else _normalizers(link, selection, row)
    shared = replace(
        selection.mechanism,
        normalizer=link.one_of("Normalizer", by_title(NORMALIZERS), selection.mechanism.normalizer),
    )
    scores = link.several("Similarities", SCORES, SIMILARITIES)
    pictures = tuple(
        _picture(selection.with_mechanism(replace(shared, score=score)), title(type(score)), row) for score in scores
    )
    return PageContent(pictures, _under(pictures, row))


def _normalizers(link: LinkObjects, selection: Selection, row: int) -> PageContent:
    pictures = []
    for kind in NORMALIZERS:
        mechanism = replace(selection.mechanism, normalizer=link.configured(kind(), title(kind)))
        try:
            whole = _picture(selection.with_mechanism(mechanism), title(kind), row)
        except ValueError:
            continue
        token = whole.query_tokens[row]
        pictures.append(Picture(whole.title, whole.weights[row : row + 1], (token,), whole.key_tokens, 0))
    return PageContent(tuple(pictures), _under(tuple(pictures), 0))


def _masks(link: LinkObjects) -> PageContent | None:
    selection = _selection(link)
    if selection is None or selection.layer.locked:
        return None
    shared = _scored(link, selection.mechanism)
    first, second = (
        replace(
            shared,
            mask=parse(link.text(f"mask-{side.lower()}", MASK_START[side])),
            biases=tuple(link.several(f"Biases {side}", BIASES, shared.biases, side)),
        )
        for side in SIDES
    )
    row = _pinned(link, selection)
    comparison = compare(selection, (first, second))
    pictures = tuple(
        _picture(selection.with_mechanism(one), f"{side}: {one.mask}", row)
        for side, one in zip(SIDES, (first, second), strict=True)
    )
    return PageContent(pictures, comparison.quantities(row))


def _lookup(link: LinkObjects) -> PageContent:
    text = link.text(dictionary_table.KEY)
    dictionary = Dictionary.parse(text) if text else dictionary_table.EXAMPLE
    x, y = (
        round(link.number(key, start, -SIDE, SIDE), 2) + 0.0
        for key, start in zip((lookup.X, lookup.Y), lookup.FIRST_QUERY, strict=True)
    )
    softness = link.option("softness", {name: name for name in SOFTNESS}, next(iter(SOFTNESS)))
    kind = link.option("similarity", lookup.SIMILARITIES, next(iter(lookup.SIMILARITIES.values())))
    if kind is General:
        matrix = [[link.number(f"w{i}{j}", lookup.W[i - 1][j - 1], -3, 3) for j in (1, 2)] for i in (1, 2)]
        score: Score = General(torch.tensor(matrix, dtype=torch.float64))
    else:
        score = Additive(seed=round(link.number("seed", 2, 0, 9999))) if kind is Additive else kind()
    selection = lookup.LookupSelection(dictionary, (x, y), softness, score, "key")
    weights = np.array([selection.result.weights])
    picture = Picture(
        _("The query ({x}, {y}), {softness}").format(x=f"{x:g}", y=f"{y:g}", softness=option_name(softness)),
        weights,
        ("query",),
        dictionary.words,
        0,
    )
    return PageContent((picture,), selection.quantities())


def _steps(link: LinkObjects) -> PageContent | None:
    attention = link.text("attention", "Self")
    if link.text("part", "Step by step") != "Step by step" or attention == "Translator" or link.text("edits"):
        return None
    example = SentenceExample(
        link.text("sentence", SentenceExample.text),
        link.text("second", steps.SECOND) if attention == "Cross" else None,
        round(link.number("d-k", SentenceExample.d_k, 2, 8)),
        round(link.number("heads", SentenceExample.heads, 1, 4)),
        steps.MASKS[link.option("masked", {name: name for name in steps.MASKS}, "Full")],
        tuple(link.several("Biases", BIASES, ())),
    )
    computed = compute_steps(example)
    inputs = computed.inputs
    names = head_names(inputs.heads)
    head = names.index(link.option("head-shown", names, names[0]))
    queries = pinned_query.numbered(range(inputs.queries), inputs.query_tokens)
    row = queries.index(link.option(steps.QUERY, queries, queries[min(1, len(queries) - 1)]))
    weights = computed.matrices[f"weights{head}"].values.numpy()
    allowed = computed.mechanism(inputs, heads=[head]).allowed[0].numpy()
    shown = np.where(allowed, weights, np.nan)
    picture = Picture(_("Weights of head {head}").format(head=head), shown, inputs.query_tokens, inputs.key_tokens, row)
    return PageContent((picture,), row_quantities(inputs.key_tokens, weights[row]))


_PAGES: dict[str, Callable[[LinkObjects], PageContent | None]] = {
    "explore": _explore, "lookup": _lookup, "steps": _steps, "scores": _scores, "masks": _masks,
}  # fmt: skip


def _selection(link: LinkObjects) -> Selection | None:
    """Returns the head of a source that the link names; None if it needs a file, or its text is long."""
    begins = source_picker.example_source()
    kind = link.option("source", by_title(TEXT_SOURCES), type(begins) if not link.text("source") else None)
    if kind is None:
        return None
    first, *others = settings(kind)
    values = {first.name: link.field(first, kind, "", first.default)}
    values |= {one.name: link.field(one, kind, title(kind), one.default) for one in others}
    source = kind(**values)
    layers = cache.layers(source)
    if not layers or is_long(layers[0].inputs):
        return None
    names = [layer.name for layer in layers]
    index = names.index(link.option("layer", names, names[source.opening.layer]))
    heads = head_names(layers[index].inputs.heads)
    choices = {name: number for number, name in enumerate(heads)} | (AGGREGATES if len(heads) > 1 else {})
    head = link.option("head", choices, source.opening.head)
    mechanisms = [layer.mechanism for layer in layers]
    return Selection(source=source, layers=layers, mechanisms=mechanisms, index=index, head=head)


def _scored(link: LinkObjects, start: Mechanism) -> Mechanism:
    """Returns `start` with the score and the normalizer of the link."""
    score = link.one_of("Score", by_title(SCORES), start.score)
    return replace(start, score=score, normalizer=link.one_of("Normalizer", by_title(NORMALIZERS), start.normalizer))


def _biases(link: LinkObjects, start: Mechanism) -> tuple:
    return tuple(link.several("Biases", BIASES, start.biases))


def _pinned(link: LinkObjects, selection: Selection) -> int | None:
    name = link.text(pinned_query.KEY)
    if name == pinned_query.NO_QUERY:
        return None
    names = selection.query_names
    return names.index(name) if name in names else selection.first_row


def _picture(selection: Selection, name: str, row: int | None) -> Picture:
    shown = selected_map(selection)
    return Picture(name, shown.weights, tuple(shown.query_tokens), tuple(shown.key_tokens), row)


def _under(pictures: tuple[Picture, ...], row: int | None) -> Quantities:
    """Returns the quantities of a row of several pictures, each followed by its title."""
    if row is None or not pictures:
        return {}
    return rows_quantities(pictures[0].key_tokens, {f" under {one.title}": one.weights[row] for one in pictures})
