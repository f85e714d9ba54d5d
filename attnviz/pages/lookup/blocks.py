"""What Lookup shows: a query in the plane of the keys, and the network that looks it up."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import plotly.graph_objects as go

from attnviz.base.formatting import number, significant, visible
from attnviz.base.language import _, option_name
from attnviz.base.link import Link
from attnviz.figures import Chart
from attnviz.figures.chart_spec import PlaneSpec
from attnviz.figures.plane import plane, plane_background
from attnviz.lessons.checks import Quantities, row_quantities
from attnviz.normalizers import Softmax
from attnviz.page.blocks import (
    Anchor,
    Block,
    Caption,
    Columns,
    Control,
    Drawing,
    Figure,
    InWords,
    More,
    Note,
    Paragraph,
    Row,
    Summary,
    Table,
)
from attnviz.page.html import element
from attnviz.page.magnification import magnification_sentence
from attnviz.page.page_view import Panel
from attnviz.page.result_cache import result_cache
from attnviz.pages.lookup.dictionary import (
    EXACT,
    SIDE,
    SOFTNESS,
    look_up,
    look_up_grid,
    lookup_gradient,
    lookup_mechanism,
)
from attnviz.pages.lookup.sentences import (
    entry,
    limit_sentence,
    plain_number,
    result_sentence,
    result_text,
    weight_text,
)
from attnviz.pages.lookup.state import LookupState
from attnviz.scores import General

NETWORK = 0.54  # share of the width
HEIGHT = 520  # pixels of the plane
SOFT = "T = 1"  # whose gradient is shown where the chosen softness is not a softmax
WEIGHTS = LookupState.w11, LookupState.w12, LookupState.w21, LookupState.w22, LookupState.seed


def lookup(state: LookupState) -> Iterator[Block]:
    """Yields the network beside the plane; folded what else can be changed, the weights at every softness, and the
    gradients."""
    yield InWords(_query_title(state))
    network: list[Block] = [
        _keys(state),
        Control(LookupState.softness, state, stays=True),
        Summary(element("span", result_sentence(state), class_="attnviz-result"), partial(_quantities, state)),
        Drawing(state, [_numbers(state)]),
    ]
    yield Columns([(NETWORK, network), (1 - NETWORK, [_plane(state)])])
    yield More(_("Change words, keys and values"), [Control(LookupState.table, state)], name="controls-words")
    yield More(_("Change the query and the similarity"), [*_further_controls(state)], name="controls-query")
    yield More(_("From uniform to the dictionary: the weights at every softness"), [*_softnesses(state)])
    yield More(_("Why soft? How the result changes when the query moves a little"), [*_gradients(state)])
    yield Caption(
        _(
            "**What you are seeing.** Each arrow is a *key*, and its number the *value* stored under it; "
            "the orange arrow is the *query*. A dictionary returns the value whose key equals the query, "
            "or nothing. Attention compares the query with every key (*similarity*), turns that into "
            "*weights* that add up to 1, and returns the sum of all values, each times its weight. The "
            "plane shows what every other query would get."
        )
    )


def query_link(state: LookupState, x: float, y: float) -> Link:
    """Returns the link with the query at a point, or at the edge of the plane if the point is outside."""
    along, up = (max(-SIDE, min(SIDE, one)) for one in (x, y))
    return state.link_with(query_x=LookupState.query_x.rounded(along), query_y=LookupState.query_y.rounded(up))


def _query_title(state: LookupState) -> str:
    x, y = (f"{along:g}" for along in state.query)
    return _("The query ({x}, {y}), {softness}", x=x, y=y, softness=option_name(state.softness))


def _quantities(state: LookupState) -> Quantities:
    result = state.result
    numbers = row_quantities(state.table.words, np.array(result.weights), result.similarities)
    return numbers if result.result is None else {**numbers, "result": result.result}


def _keys(state: LookupState) -> Paragraph:
    """Returns the keys, each of which opens the query that is equal to it; words that are not unique with a number."""
    table = state.table
    equal = [i for i, one in enumerate(table.entries) if (one.x, one.y) == state.query]
    anchors = []
    for i, one in enumerate(table.entries):
        name = f"{i + 1} · {one.word}" if table.words.count(one.word) > 1 else one.word
        anchors.append(Anchor(visible(name), query_link(state, one.x, one.y), is_current=i in equal[-1:]))
    return Paragraph((_("Ask for a key:"), *anchors), "attnviz-choices")


def _numbers(state: LookupState) -> Table:
    """Returns the similarity, the weight, the value and the product of each key, and the sum of the products."""
    table, result = state.table, state.result
    rows = [
        (entry(table, i), plain_number(similarity), weight_text(weight), significant(one.value), plain_number(product))
        for i, (one, similarity, weight, product) in enumerate(
            zip(table.entries, result.similarities, result.weights, result.products, strict=True)
        )
    ]
    total = (_("sum"), "", number(sum(result.weights)), "", element("b", result_text(result.result)))
    headings = _("key"), _("similarity"), _("weight"), _("value"), _("product")
    return Table(headings, [*rows, total], marked=len(rows))


def _plane(state: LookupState) -> Figure:
    table, mechanism = state.table, state.mechanism
    background = result_cache().once(partial(_background, state), "plane", table, mechanism, state.color)
    is_smooth = isinstance(SOFTNESS[state.softness], Softmax)
    slope = lookup_gradient(table, state.query, mechanism) if is_smooth else None
    weights = np.array(state.result.weights)
    picture: Chart[PlaneSpec] = plane(
        background, table.keys.numpy(), table.words, table.values.numpy(), weights, state.query,
        projection=mechanism.score.matrix(2, 2).numpy() if isinstance(mechanism.score, General) else None,
        slope=slope or (0.0, 0.0),
    )  # fmt: skip
    panel = Panel(_query_title(state), weights[None], ("query",), table.words, 0)
    return Figure(picture, "plane", HEIGHT, panels=[panel], grows=True, drags=partial(query_link, state))


def _background(state: LookupState) -> go.Figure:
    grid = look_up_grid(state.table, state.mechanism)
    stages = (grid.axis, grid.scores, grid.weights, grid.result, state.table.values)
    return plane_background(*(stage.numpy() for stage in stages), colored_by=state.color)


def _further_controls(state: LookupState) -> Iterator[Block]:
    """Yields the query as numbers, the similarity with its weights, and the colors of the plane."""
    fields = LookupState.query_x, LookupState.query_y, LookupState.similarity, LookupState.color
    yield Row([Control(field, state) for field in fields], "lookup-query")
    if weights := [field for field in WEIGHTS if field.is_offered(state)]:
        yield Row([Control(field, state) for field in weights], "lookup-weights")


def _softnesses(state: LookupState) -> Iterator[Block]:
    """Yields the weights at every softness, and what softmax does to the two highest similarities."""
    table, normalizer = state.table, state.mechanism.normalizer
    results = {
        softness: look_up(table, state.query, lookup_mechanism(softness, state.score))
        for softness in reversed(SOFTNESS)
    }
    headings = [_("softness"), _("result"), *(entry(table, i) for i in range(len(table.entries)))]
    rows = [
        (option_name(name), element("b", result_text(one.result)), *map(weight_text, one.weights))
        for name, one in results.items()
    ]
    yield Table(headings, rows, marked=[*results].index(state.softness))
    yield Note(limit_sentence(table, results["hard"], results[EXACT]))
    if isinstance(normalizer, Softmax):
        words = [*map(visible, table.words)]
        yield Note(magnification_sentence(state.result.similarities, words, normalizer.temperature, _("similarity")))


def _gradients(state: LookupState) -> Iterator[Block]:
    """Yields the gradient of the result with respect to the query, for the dictionary, and for hard and soft
    attention."""
    compared = (EXACT, "hard", state.softness if state.softness.startswith("T") else SOFT)
    rows = list[tuple[object, ...]]()
    for softness in compared:
        gradient = lookup_gradient(state.table, state.query, lookup_mechanism(softness, state.score))
        jump = [_("none: the result jumps here")]
        numbers = jump if gradient is None else [plain_number(along, 3) for along in gradient]
        rows.append((option_name(softness), *numbers))
    marked = compared.index(state.softness) if state.softness in compared else None
    yield Control(LookupState.gradients, state)
    yield Table((_("softness"), _("∂result/∂x"), _("∂result/∂y")), rows, marked=marked)
    yield Note(
        _(
            "Training moves queries and keys a little to where the result gets better, along this "
            "gradient (the gray arrow in the plane). A hard choice gives zero, which does not show "
            "where to go."
        )
    )
