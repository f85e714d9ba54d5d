"""Heads over many texts: numbers of those that come with attnviz and of one's own, and what there is about a head."""

import re
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, TypeVar

import markupsafe
import numpy as np
import pytest

from attnviz.analysis.atlas import shipped_atlas, shipped_texts
from attnviz.analysis.atlas_part import read_part
from attnviz.analysis.head_metrics import head_metrics
from attnviz.base.language import language
from attnviz.models import MINILM
from attnviz.models.loading import inspect_folder
from attnviz.models.minilm import minilm
from attnviz.models.smollm2 import smollm2
from attnviz.models.texts import Texts
from attnviz.page.block_html import block_html
from attnviz.page.blocks import (
    Anchor,
    Block,
    Computed,
    Control,
    Figure,
    Kept,
    Listing,
    More,
    Note,
    Paragraph,
    Summary,
    Table,
    Unavailable,
    every_block,
)
from attnviz.pages.catalogue import read_state
from attnviz.pages.heads.blocks import heads
from attnviz.pages.heads.head_examples import SHOWN
from attnviz.pages.heads.many_texts import CHOICES
from attnviz.pages.heads.state import MANY_TEXTS, MOST_CHARACTERS, MOST_TEXTS, REPEATED, HeadsState
from attnviz.sources.upload import File
from tests.support.page_texts import link_of, said

B = TypeVar("B", bound=Block)
OWN = ("the quick brown fox jumps over the lazy dog", "a naïve fox", "the dog stops over the dog the dog")


def opened(**link: Any) -> HeadsState:
    state = HeadsState.read(link_of(inspect=MANY_TEXTS, **link))
    assert not state.problem
    return state


def of(block_type: type[B], state: HeadsState) -> list[B]:
    return [block for block in every_block(heads(state)) if isinstance(block, block_type)]


def grid(state: HeadsState) -> np.ndarray:
    return of(Figure, state)[0].panels[-1].weights


@pytest.mark.parametrize("load", [smollm2, minilm])
def test_the_atlas_that_is_shipped_is_that_of_the_model(load: Any) -> None:
    model = load()
    known = shipped_atlas(model)
    assert known is not None
    assert known.texts == shipped_texts()
    assert len({*known.texts}) == 200
    some = [0, 77, 199]
    part = read_part(model, Texts(model, [known.texts[i] for i in some]))
    np.testing.assert_allclose(known.values[some], part.values[part.texts.argsort()], rtol=2e-3, atol=1e-3)
    with language("de"):  # in which the precision of a model has another name
        assert shipped_atlas(model) is known
    others = [
        SimpleNamespace(name="another", precision=model.precision),
        SimpleNamespace(name=model.name, precision="8"),
    ]
    assert [*map(shipped_atlas, others)] == [None, None]


def test_the_page_opens_with_means_over_the_texts_that_are_shipped() -> None:
    state = opened(kind="duplicate-token head")
    known = shipped_atlas(smollm2())
    assert known is not None
    means = known.means[known.metrics.index("Same token before")].numpy().reshape(30, 9)
    np.testing.assert_allclose(grid(state), means)
    [sentence] = of(Summary, state)
    layer, head = np.unravel_index(means.argmax(), means.shape)
    assert known.counts[known.metrics.index("Same token before"), known.head(int(layer), int(head))] == 195
    assert f"layer {layer}, head {head}. That is the mean of 195 texts." in sentence.content
    assert sentence.quantities()[f"number of {layer}.{head}"] == pytest.approx(means.max())


def test_texts_with_at_least_a_number_are_counted() -> None:
    state = opened(why_model=MINILM, at_least=0.3)
    values = shipped_atlas(minilm()).values[:, 4].float().numpy()
    np.testing.assert_allclose(grid(state).ravel(), (values >= 0.3).mean(0), atol=1e-6)
    assert "Encoder 0, head 2 has at least 0.30 in 100% of the texts, more than any" in of(Summary, state)[0].content
    ties = of(Summary, opened(why_model=MINILM, at_least=0.0))[0].content
    assert ties == "Encoder 0, head 0 has at least 0.00 in 100% of the texts, and so have 71 more."


@pytest.mark.filterwarnings("ignore:Mean of empty slice")  # of a metric that cross-attention does not have
@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_ones_own_texts_give_the_mean_of_what_each_gives_alone(saved, name: str) -> None:
    folder = str(saved / name)
    measures = "Entropy", "Same token before"
    model = inspect_folder(saved / name, name).load()
    tables = [head_metrics(model.layers(text)) for text in OWN]
    for measure, kind in zip(measures, ("Entropy", "duplicate-token head"), strict=True):
        state = opened(why_model=folder, own_texts="\n".join(OWN), kind=kind)
        expected = np.nanmean([table.values[measure] for table in tables], 0)
        shown = grid(state)[tables[0].layers, tables[0].heads]
        np.testing.assert_allclose(shown, expected, rtol=1e-4, atol=1e-5)
    assert "texts of yours" in said("heads", why_model=folder, inspect=MANY_TEXTS, own_texts="\n".join(OWN))


def test_examples_mark_their_pair_and_open_it_elsewhere() -> None:
    state = opened(effects_head="layer 18, head 6")
    known = shipped_atlas(smollm2())
    pairs = known.pairs(known.head(18, 6), "weight")
    listings = of(Listing, state)[:2]  # the others are of MLPs
    items = [item for listing in listings for item in listing.items]
    assert (len(listings[0].items), len(items)) == (SHOWN, len(pairs))
    for item, pair in zip(items[:3], pairs, strict=False):
        tokens = smollm2().encode(known.texts[pair.text]).source.tokens
        marked = str(item[0])
        assert re.findall(r"<u>(.*?)</u>", marked) == [tokens[pair.query].strip()]
        assert re.findall(r"<mark>(.*?)</mark>", marked) == [tokens[pair.key].strip()]
        anchors = {each.page: each for each in item if isinstance(each, Anchor)}
        explore, why, effects = (read_state(page, anchors[page].link) for page in ("explore", "why", "effects"))
        assert not any((explore.problem, why.problem, effects.problem))
        assert (explore.source.text, explore.layer, explore.head) == (known.texts[pair.text], 18, 6)
        weights = explore.layers[18].known_mechanism(explore.inputs).weights[6]
        assert float(weights[explore.pinned, pair.key]) == pytest.approx(pair.weight, abs=1e-4)
        assert (why.query, why.key, why.head) == (pair.query, pair.key, 6)
        assert (effects.head, effects.position) == ((18, 6), pair.query)
        assert not any((explore.refused, why.refused, effects.refused))


def test_what_is_said_of_a_head_is_counted() -> None:
    state = opened(effects_head="layer 16, head 0")
    text = " ".join(filter(None, (block_html(block, lambda _anchor: "") for block in every_block(heads(state)))))
    known = shipped_atlas(smollm2())
    head = known.head(16, 0)
    before = known.values[:, known.metrics.index("Previous token"), head]
    pairs = known.pairs(head, "random")
    count = int((before >= 0.5).sum())
    assert f"Previous-token head in {count} of 200 texts: there it has at least 50% of all attention." in text
    drawn = sum(pair.key == pair.query - 1 for pair in pairs)
    assert "among other keys than the first token, special ones and the query itself: 20 pairs. " in text
    assert f"The key is the token before the query in {drawn}" in text


def test_written_examples_have_the_tokens_that_they_raise() -> None:
    text = said("heads", inspect=MANY_TEXTS, effects_head="layer 18, head 6", examples="with most that is written")
    known = shipped_atlas(smollm2())
    up = known.raised[known.head(18, 6), 0, 0]
    words = [smollm2().tokenizer.decode([int(one)]).strip() for one in up]
    [first] = re.findall(r"Writes for (.*?);", text)[:1]
    assert [word.strip("␣ ") for word in first.split(", ")] == words
    assert "logits what is written there raises most" in text


def test_written_examples_have_the_number_that_orders_them() -> None:
    state = opened(effects_head="layer 18, head 6", examples="with most that is written")
    items = [item for listing in of(Listing, state)[:2] for item in listing.items]
    norms = [float(next(part for part in item if str(part).startswith(", "))[2:]) for item in items]
    assert norms == sorted(norms, reverse=True)
    known = shipped_atlas(smollm2())
    pair, norm = known.pairs(known.head(18, 6))[0], float(known.examples["written"].order[known.head(18, 6), 0])
    assert norms[0] == pytest.approx(norm, abs=0.005)
    layer = smollm2().layers(known.texts[pair.text])[18]
    values = layer.inputs.value[6 // 3, pair.key].float()  # three heads have one value
    written = smollm2().model.model.layers[18].self_attn.o_proj.weight[:, 6 * 64 : 7 * 64].float() @ values
    assert pair.weight * float(written.detach().norm()) == pytest.approx(norm, rel=1e-3)


def test_a_number_that_no_head_has_is_of_no_texts() -> None:
    sentence = of(Summary, opened(kind="Special tokens"))[0].content  # of which SmolLM2 reads none
    assert sentence == "No head here has a number for “Special tokens”."
    assert any("It is not defined there." in note.content for note in of(Note, opened(kind="Special tokens")))


def test_no_head_is_the_largest_where_all_have_the_same() -> None:
    sentence = of(Summary, opened(kind="Row sum"))[0].content
    assert sentence == "All 270 heads have 1.00 for “Row sum”. That is the mean of 200 texts."


def test_a_head_leads_to_the_same_on_repeated_tokens() -> None:
    anchors = [
        part
        for block in of(Paragraph, opened(effects_head="layer 18, head 6"))
        for part in (block.content if isinstance(block.content, tuple) else ())
        if isinstance(part, Anchor) and "repeated" in str(part.text)
    ]
    [state] = [HeadsState.read(anchor.link) for anchor in anchors]
    assert (state.inspect, state.head, state.problem, state.refused) == (REPEATED, (18, 6), "", ())


def test_tokens_have_their_weight_each_time() -> None:
    known = shipped_atlas(smollm2())
    [table, _from] = [one for one in of(Table, opened(effects_head="layer 18, head 6")) if len(one.headings) == 4]
    head = known.head(18, 6)
    each = float(known.looked_at.weight[head, 0] / known.looked_at.occurrences[head, 0])
    assert float(table.rows[0][3]) == pytest.approx(each, rel=0.05)


def test_an_mlp_has_its_norms_and_tokens() -> None:
    state, mlp = opened(mlp="layer 28"), 28
    known = shipped_atlas(smollm2())
    assert known is not None
    [more] = [one for one in of(More, state) if one.name == "mlps"]
    text = " ".join(block_html(block, lambda _anchor: "") or "" for block in every_block(more.blocks))
    assert f"has a norm of {float(known.mlps.values[:, mlp].mean()):.2f}, as mean over the texts" in text
    [figure] = [block for block in every_block(more.blocks) if isinstance(block, Figure)]
    np.testing.assert_array_equal(figure.panels[0].weights[0], known.mlps.values[:, mlp])
    of_tokens = [known.tokens_of_mlp(mlp, kind) for kind in ("written", "random")]
    listings = [block for block in every_block(more.blocks) if isinstance(block, Listing)]
    for listing, examples in zip(listings, of_tokens, strict=True):
        for item, example in zip(listing.items, examples, strict=False):
            token = smollm2().encode(known.texts[example.text]).source.tokens[example.query].strip()
            assert re.findall(r"<mark>(.*?)</mark>", str(item[0])) == [markupsafe.escape(token)]
    raised = smollm2().tokenizer.decode([int(known.raised_by_mlps[mlp, 0, 0, 0])]).strip()
    assert f"Writes for ␣{raised}" in str(listings[0].items[0][-1])
    assert known.mlps.means.argmax() == 29


def test_lists_that_are_too_long_are_refused() -> None:
    with pytest.raises(ValueError, match=f"At most {MOST_TEXTS} texts"):
        opened(own_texts="\n".join(["a cat"] * (MOST_TEXTS + 1))).lines  # noqa: B018
    with pytest.raises(ValueError, match="Text 2 has"):
        opened(own_texts=f"a cat\n{'a' * (MOST_CHARACTERS + 1)}").lines  # noqa: B018


def test_a_file_has_a_text_on_each_line() -> None:
    content = b'{"text": "a cat"}\n"a dog"\n'
    assert opened().updated(file=File("texts.jsonl", content)).lines == ("a cat", "a dog")
    assert opened(own_texts="a bird").updated(file=File("texts.txt", b"a cat\n\na dog")).lines == (
        *("a bird", "a cat", "a dog"),
    )
    with pytest.raises(ValueError, match="cannot be read as lines"):
        opened().updated(file=File("texts.txt", b"\xff\xfe\x00")).lines  # noqa: B018


def test_a_text_that_the_model_cannot_read_is_named(saved) -> None:
    state = opened(why_model=str(saved / "gpt2"), own_texts="word " * 390)
    with pytest.raises(ValueError, match=r"Text 1: .* tokens"):
        [*every_block(heads(state))]


def test_the_head_of_the_documentation_has_these_numbers() -> None:
    known = shipped_atlas(smollm2())
    head = known.head(18, 6)
    induction, first = (float(known.means[known.metrics.index(name), head]) for name in ("Induction", "First token"))
    assert (round(induction, 2), round(first, 2)) == (0.03, 0.97)


def test_a_list_that_is_refused_stays_in_its_field() -> None:
    [tabs] = heads(opened(own_texts="\n".join(["a cat"] * (MOST_TEXTS + 1))))
    kept, refusal, inputs = tabs.blocks  # and nothing about heads
    assert isinstance(kept, Kept)
    assert isinstance(refusal, Unavailable)
    assert isinstance(inputs, More)
    assert refusal.text.startswith(f"At most {MOST_TEXTS} texts")
    assert inputs.is_open
    assert HeadsState.own_texts in [block.field for block in inputs.blocks if isinstance(block, Control)]


def fields(blocks: Iterable[Block]) -> set[Any]:
    every = [*every_block(blocks, of_results=False)]
    kept = {field for block in every if isinstance(block, Kept) for field in block.fields}
    return kept | {block.field for block in every if isinstance(block, Control)}


def test_what_is_chosen_stays_while_texts_are_read_or_refused(saved) -> None:
    chosen = {*CHOICES}
    [tabs] = heads(opened(own_texts="\n".join(["a cat"] * (MOST_TEXTS + 1))))
    assert chosen <= fields(block for block in tabs.blocks if not isinstance(block, Unavailable))
    state = opened(why_model=str(saved / "gpt2"), own_texts="\n".join(OWN))
    [computed] = of_unread(state, Computed)
    parts: list[tuple[float, Any]] = []
    whole = computed.compute(progress=lambda share, read: parts.append((share, read)))
    assert [share for share, _read in parts] == sorted(share for share, _read in parts)
    assert parts[-1][0] < 1
    for _share, read in parts:
        assert chosen <= fields(computed.shows(read))
    sentences = [computed.describe(read) for _share, read in parts]
    assert sentences[:2] == ["0 of 3 texts have been read.", "3 of 3 texts have been read."]
    assert sentences[2] == "Which tokens heads and MLPs raise is known of 0 of 10."
    assert chosen <= fields(computed.shows(whole))


def of_unread(state: HeadsState, block_type: type[B]) -> list[B]:
    """The blocks without those of results that take time."""
    return [block for block in every_block(heads(state), of_results=False) if isinstance(block, block_type)]


@pytest.mark.parametrize(("own", "is_said"), [("", True), ("a cat", False)])
def test_the_texts_that_are_shipped_are_named_where_they_are_read(saved, own: str, is_said: bool) -> None:
    notes = of_unread(opened(why_model=str(saved / "gpt2"), own_texts=own), Note)
    assert any("texts that SmolLM2 has written are read" in note.content for note in notes) is is_said
