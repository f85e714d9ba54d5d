"""The copying scores of all heads, and the circuits of one: what it writes, which keys it prefers, and with which heads
it composes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from attnviz.base.language import N_, _
from attnviz.effects.ablation import Head
from attnviz.effects.head_circuits import Composition
from attnviz.lessons.checks import Quantities
from attnviz.page import html
from attnviz.page.blocks import Anchor, Block, Caption, Columns, Control, Heading, Note, Row, Summary, Table
from attnviz.pages.effects.head_circuits import CircuitsView, TokenRow, circuits_view
from attnviz.pages.effects.state import EffectsState

PARTS: dict[Composition, str] = {
    "key": N_("is a part of the key of"),
    "query": N_("is a part of the query of"),
    "value": N_("is a part of the value of"),
}


def circuit_blocks(state: EffectsState) -> Iterator[Block]:
    """Yields the copying scores of all heads, and the circuits of the chosen one. Raises ValueError as
    `circuits_view`."""
    shown = circuits_view(state)
    known = _KnownParts()
    yield Row(
        [Control(field, state) for field in (EffectsState.head, EffectsState.reads, EffectsState.token_vectors)],
        "effects-circuits",
    )
    numbers = partial(circuit_quantities, shown)
    yield from known.part(lambda: [Summary(shown.written_sentence, numbers)], lambda text: Summary(text, numbers))
    yield from known.part(lambda: [Note(shown.copying_sentence), _copying(shown, state)])
    yield Columns([(0.5, [*known.part(lambda: _written(shown))]), (0.5, [*known.part(lambda: _keys(shown))])])
    yield from _composition(shown, state)
    yield Caption(
        _(
            "**What you are seeing.** A head writes with its OV circuit, W_O W_V, and chooses what it looks at with "
            "its QK circuit, W_Qᵀ W_K: both are known from the weights, without a text. Tokens are normalized as the "
            "model does it, and numbers are compared with those of all tokens (SD: standard deviations from their "
            "mean). **What it does not say:** in a text, a position holds more than its token, and whether the head "
            "looks at it depends on all others."
        )
    )


class _KnownParts:
    """Parts of which some are not known; the same reason is said once."""

    def __init__(self) -> None:
        self.reasons: set[str] = set()

    def part(self, make: Callable[[], Iterable[Block]], because: Callable[[str], Block] = Note) -> list[Block]:
        """Returns a part, or why it is not known, if that has not been said before."""
        try:
            return [*make()]
        except ValueError as problem:
            is_new = str(problem) not in self.reasons
            self.reasons.add(str(problem))
            return [because(str(problem))] if is_new else []


def _copying(shown: CircuitsView, state: EffectsState) -> Block:
    numbers, hint = shown.copying_scores(), _("Click a head to see its circuits.")
    return numbers.grid("effects-copying", hint, numbers.opens_head(state), shown.head)


def _written(shown: CircuitsView) -> Iterator[Block]:
    title = _("When it looks at “{word}”, it raises and lowers", word=shown.word)
    return _tokens(title, (_("raises"), _("lowers")), shown.raised, shown.lowered)


def _keys(shown: CircuitsView) -> Iterator[Block]:
    title = _("When it looks from “{word}”, it prefers and avoids", word=shown.word)
    return _tokens(title, (_("prefers"), _("avoids")), shown.preferred, shown.avoided)


def _tokens(title: str, names: tuple[str, str], most: Sequence[TokenRow], least: Sequence[TokenRow]) -> Iterator[Block]:
    """Yields the first and the last tokens side by side, with their standard deviations from the mean."""
    rows = [
        (html.token(first.token), first.value, html.token(last.token), last.value)
        for first, last in zip(most, least, strict=True)
    ]
    yield Heading(title)
    yield Table((names[0], _("SD"), names[1], _("SD")), rows)


def _composition(shown: CircuitsView, state: EffectsState) -> Iterator[Block]:
    """Yields with which heads the head composes."""

    def anchor(head: Head) -> Anchor:
        return Anchor(shown.name(head), state.link_with(head=head))

    yield Heading(_("With which heads {head} works together", head=shown.head_name))
    yield Control(EffectsState.composition, state)
    hint = _("Click a head to see its circuits.")
    numbers = shown.composition
    yield numbers.grid("effects-composition", hint, numbers.opens_head(state), shown.head)
    headings = _("What this head writes"), _(PARTS[state.composition]), _("above random")
    yield Table(headings, [(anchor(row.writer), anchor(row.reader), row.above_random) for row in shown.compositions])
    yield Note(shown.composition_note)


def circuit_quantities(shown: CircuitsView) -> Quantities:
    """Returns the numbers that lessons check: the composition with each head, and the copying score where it is
    known."""
    numbers = shown.composition.quantities("composition with")
    return {**numbers, **({} if shown.copying_score is None else {"copying score": shown.copying_score})}
