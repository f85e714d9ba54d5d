"""What there is in an atlas about one head: how often it does what, its distribution, its examples, and its tokens."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int
from markupsafe import Markup
from torch import Tensor

from attnviz.analysis.atlas import Atlas, LookedTokens, Pair
from attnviz.analysis.atlas_examples import RANDOM, WRITTEN
from attnviz.analysis.head_detectors import DETECTORS
from attnviz.analysis.strongest_heads import MOST_OF
from attnviz.analysis.token_context import marked_text
from attnviz.base.formatting import enumeration, grouped, number, percent, visible
from attnviz.base.language import _, plural
from attnviz.base.token_texts import token_texts, vocabulary_tokens
from attnviz.effects.ablation import Head
from attnviz.figures.histogram import histogram
from attnviz.layer import LayerId, head_option
from attnviz.models.text_inputs import Tokens
from attnviz.page.blocks import Anchor, Block, Control, Figure, Listing, More, Note, Paragraph, Table
from attnviz.page.html import element, join
from attnviz.page.page_view import Panel
from attnviz.pages.effects.links import effects_link
from attnviz.pages.explore.links import pinned_query_link
from attnviz.pages.heads.measured_heads import measure_title
from attnviz.pages.heads.state import REPEATED, HeadsState
from attnviz.pages.why.links import text_of_model
from attnviz.sources import Model

SHOWN, CONTEXT = 8, 12  # examples that are not folded, and tokens before and after each of the pair
HISTOGRAM = 230  # pixels
TOKENS = 10  # of each kind in a table


class Example(NamedTuple):
    """A pair of an atlas, its place among those of its head and kind, and its text with the tokens of that."""

    pair: Pair
    rank: int
    text: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    ids: Sequence[int]  # of the keys


def head_examples(state: HeadsState, known: Atlas, head: Head) -> Iterator[Block]:
    """Yields what was counted of a head, its distribution over the texts, examples, tokens and the heads most like
    it."""
    number_of_head = known.head(head[0], head[1])
    random = _examples(state, known, number_of_head, RANDOM)
    for sentence in (*_kinds(known, number_of_head), *_relations(known.layers[number_of_head], random)):
        yield Paragraph(sentence)
    repeated = state.link_with(inspect=REPEATED, head=head)
    yield Paragraph((Anchor(_("And on repeated tokens?"), repeated, style="attnviz-page-link"),))
    yield from _distribution(state, known, number_of_head)
    yield Control(HeadsState.examples, state)
    examples = random if state.examples == RANDOM else _examples(state, known, number_of_head, state.examples)
    if not examples:
        yield Note(_("This head gives no weight to other tokens than the first, special ones and the query itself."))
        return
    legend: list[object] = [element("u", _("query")), ", ", element("mark", _("key")), ", "]
    legend.append(element("b", _("weight")))
    if state.examples == WRITTEN:
        legend.append(f", {_('norm of what is written from the key')}")
        if (known.raised[number_of_head] >= 0).any():
            legend.append(f". {about_raised()}")
    yield Note(tuple(legend))
    items = [_item(state, known, number_of_head, example) for example in examples]
    yield Listing(items[:SHOWN], _("Examples"), "attnviz-examples")
    if len(items) > SHOWN:
        rest = Listing(items[SHOWN:], _("Examples"), "attnviz-examples", SHOWN + 1)
        yield More(_("{count} more", count=len(items) - SHOWN), [rest], name="more-examples")
    yield More(
        _("Tokens and heads like it"),
        [*_tokens(state, known, number_of_head), _neighbors(state, known, number_of_head)],
    )


def _examples(state: HeadsState, known: Atlas, head: int, kind: str) -> list[Example]:
    model, id = state.source.model(), known.layers[head]
    examples = []
    for rank, pair in enumerate(known.pairs(head, kind)):
        inputs = model.encode(known.texts[pair.text])
        sides = [
            (inputs.source, "input_ids") if is_source else (inputs.target or Tokens(), "decoder_input_ids")
            for is_source in (id.stack != "decoder", id.stack != "decoder" or id.cross)
        ]
        (queries, _ids), (keys, ids) = sides
        read = Example(pair, rank, known.texts[pair.text], queries.tokens, keys.tokens, inputs.batch[ids][0].tolist())
        if pair.query < len(read.queries) and pair.key < len(read.keys):  # of the same tokenizer
            examples.append(read)
    return examples


def _kinds(known: Atlas, head: int) -> Iterator[str]:
    """Yields in how many texts a head gives most of its attention to what a detector looks for."""
    for detector in DETECTORS:
        if detector.metric is None:
            continue
        values = known.values[:, known.metrics.index(detector.metric.name), head].float()
        texts, count = int((~values.isnan()).sum()), int((values >= MOST_OF).sum())
        if count:
            yield _(
                "{kind} in {count} of {texts} texts: there it has at least {least} of all attention.",
                kind=_capitalized(_(detector.name)),
                count=count,
                texts=texts,
                least=percent(MOST_OF),
            )


def _relations(layer: LayerId, examples: Sequence[Example]) -> Iterator[str]:
    """Yields how often the key of pairs that are drawn by weight is beside the query, or the same token."""
    if layer.cross or not examples:
        return

    def token(example: Example, before: int = 0) -> int | None:
        position = example.pair.key - before
        return example.ids[position] if position >= 0 else None

    follows = sum(one.pair.key == one.pair.query - 1 for one in examples)
    same = sum(token(one) == one.ids[one.pair.query] for one in examples)
    after_same = sum(
        token(one, 1) == one.ids[one.pair.query] and one.pair.key - 1 != one.pair.query for one in examples
    )
    parts = [
        *[_("the token before the query in {count}", count=follows)] * bool(follows),
        *[_("the same token elsewhere in {count}", count=same)] * bool(same),
        *[_("the token after the same one elsewhere in {count}", count=after_same)] * bool(after_same),
    ]
    drawn = plural("{count} pair", "{count} pairs", len(examples), count=len(examples))
    text = _(
        "Drawn by weight, among other keys than the first token, special ones and the query itself: {pairs}.",
        pairs=drawn,
    )
    if parts:
        yield text + " " + _("The key is {parts}.", parts=enumeration(parts))
    else:
        yield text + " " + _("In none of them the key is the token before, or the same token.")


def _distribution(state: HeadsState, known: Atlas, head: int) -> Iterator[Block]:
    measure = state.measure
    assert measure.metric is not None  # of weights
    values = known.values[:, known.metrics.index(measure.metric.name), head].float().numpy()
    if not np.isfinite(values).any():
        return
    title = measure_title(measure)
    marked = float(np.nanmean(values)) if state.at_least is None else state.at_least
    panel = Panel(title, values[None], [title], [*map(str, range(len(values)))])
    yield Figure(histogram(values, title, marked=marked), "heads-distribution", HISTOGRAM, panels=[panel])


def _item(state: HeadsState, known: Atlas, head: int, example: Example) -> tuple[object, ...]:
    """Returns a text with its pair marked, the weight, what such examples are ordered by, and links to the same pair on
    other pages."""
    pair, id = example.pair, known.layers[head]
    if id.cross:
        texts = [
            marked_tokens(example.queries, {pair.query: "u"}),
            " ← ",
            marked_tokens(example.keys, {pair.key: "mark"}),
        ]
    else:
        texts = [marked_tokens(example.keys, {pair.key: "mark", pair.query: "u"})]
    parts: list[object] = [element("bdi", *texts), " ", element("b", number(pair.weight))]
    written: Markup | str = ""
    if state.examples == WRITTEN:
        parts.append(f", {number(float(known.examples[WRITTEN].order[head, example.rank]))}")
        written = raised_tokens(state, known.raised[head], example.rank)
    parts += [part for link in _links(state, id, known.heads[head], example) for part in (" · ", link)]
    return (*parts, written)


def marked_tokens(tokens: Sequence[str], marks: Mapping[int, str]) -> Markup:
    """Returns the text around some positions, each in an element of the name that is given for it."""
    return join(
        part.text if part.position is None else element(marks[part.position], visible(part.text))
        for part in marked_text(tokens, marks, CONTEXT)
    )


def _links(state: HeadsState, id: LayerId, head: int, example: Example) -> Iterator[Anchor]:
    """Yields the anchors to the same pair on other pages."""
    pair, source = example.pair, Model(example.text, state.model, text_alone=True)
    yield Anchor(_("Explore"), pinned_query_link(source, id, head, example.queries, pair.query), "explore")
    read = text_of_model(source)
    if read is not None and not id.cross and id.stack != "decoder":
        yield Anchor(_("Why there?"), read.score_link(id, head, pair.query, pair.key), "why")
        without = effects_link(read.position_link(pair.query), head_option(id, head))
        yield Anchor(_("Without the head?"), without, "effects")


def about_raised() -> str:
    """Returns what is said of tokens that are raised and lowered."""
    return _(
        "After “Writes for” are the tokens whose logits what is written there raises most, after “against” those whose "
        "logits it lowers most."
    )


def raised_tokens(state: HeadsState, raised: Int[Tensor, "raising 2 raised"], rank: int) -> Markup | str:
    """Returns the tokens whose logits what is written at an example raises and lowers most, where they are known."""
    if rank >= len(raised) or int(raised[rank].max()) < 0:
        return ""
    up, down = (_names(state, ids.tolist()) for ids in raised[rank])
    sentence = _("Writes for {up}; against {down}.", up=", ".join(up), down=", ".join(down))
    return element("small", sentence)


def _names(state: HeadsState, ids: list[int]) -> list[str]:
    tokens = vocabulary_tokens(state.source.model().tokenizer, ids)
    return [visible(text) for text in token_texts(tokens)]


def _tokens(state: HeadsState, known: Atlas, head: int) -> Iterator[Block]:
    """Yields the tokens that a head looks at, and from, most, beside how often they occur."""
    for title, looked in ((_("Looks at"), known.looked_at), (_("Looks from"), known.looked_from)):
        yield _token_table(state, title, looked, head)


def _token_table(state: HeadsState, title: str, looked: LookedTokens, head: int) -> Table:
    count = min(TOKENS, int((looked.ids[head] >= 0).sum()))
    names = _names(state, looked.ids[head, :count].tolist())
    numbers = zip(names, looked.weight[head].tolist(), looked.occurrences[head].tolist(), strict=False)
    rows = [
        (element("bdi", name), number(weight), grouped(times), number(weight / times) if times else "–")
        for name, weight, times in numbers
    ]
    return Table((title, _("weight in all texts"), _("occurs"), _("weight each time")), rows)


def _neighbors(state: HeadsState, known: Atlas, head: int) -> Paragraph:
    anchors: list[object] = [_("Heads with the most similar weights:"), " "]
    for other, likeness in zip(known.neighbors[head].tolist(), known.likeness[head].tolist(), strict=True):
        place = [*dict.fromkeys(known.layers)].index(known.layers[other]), known.heads[other]
        name = f"{known.layers[other].number or known.layers[other]}.{known.heads[other]}"
        anchors += [Anchor(name, state.link_with(head=place)), f" {number(likeness)} "]
    return Paragraph(tuple(anchors))


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]
