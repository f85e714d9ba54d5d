"""Why over many texts: each sum is that of the text alone, and the page has their means and their order."""

import numpy as np
import pytest
import torch

from attnviz.attribution import LogitDifference, attribute
from attnviz.models import MINILM, TRANSLATOR
from attnviz.page.blocks import Anchor, Figure, Listing, Table, every_block
from attnviz.page.text_list import MOST_MEASURED
from attnviz.pages.catalogue import read_state
from attnviz.pages.why.answer import why_answer
from attnviz.pages.why.blocks import why
from attnviz.pages.why.many_texts import mean_shares
from attnviz.pages.why.state import MANY_TEXTS, WhyState, question_words, writer_places
from attnviz.pages.why.text_sums import text_sums
from tests.support.app import contents, errors, ok, open_page
from tests.support.page_texts import said, summary
from tests.support.tiny_models import TEXT
from tests.support.waiting import until

LINES = f"{TEXT} | brown | dog\n{TEXT} the lazy dog | fox\nover the dog | | the average token"
MLP = "layer 1, MLP"


def tiny(saved, name: str = "gpt2", **values) -> WhyState:
    options = {"inspect": MANY_TEXTS, "many": LINES} | values
    return WhyState(model=str(saved / name), text=TEXT, token="fox", other="lazy", **options)


def alone(state: WhyState):
    """What the library computes of each text by itself."""
    model = state.source.model()
    return [attribute(model.model, model.encode(text.text).batch, metric) for text, metric in state.measured]


def test_a_line_may_have_a_pair_of_its_own(saved) -> None:
    state = tiny(saved)
    brown, dog, fox, lazy = map(state.run.token_id, ("brown", "dog", "fox", "lazy"))
    assert [metric for _text, metric in state.measured] == [
        LogitDifference(brown, dog), LogitDifference(fox, lazy), LogitDifference(fox, "mean")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("many", "asks", "words"),
    [
        (f"{TEXT}\nover the dog", True, "Why does it say"),
        (LINES, True, "Where a text names no token of its own, why does it say"),
        (f"{TEXT} | brown | dog\n{TEXT} | fox | the average token", False, None),
        ("", True, "Why does it say"),
    ],
)
def test_what_is_asked_above_texts_is_true_of_them(saved, many: str, asks: bool, words: str | None) -> None:
    state = tiny(saved, many=many)
    assert state.asks is asks
    if words is not None:
        assert [text for text, _field in question_words(state)] == [words, "rather than"]


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "t5"])
def test_the_shares_are_those_of_each_text_alone(saved, name: str) -> None:
    state = tiny(saved, name, many=f"{TEXT} | #20 | #30\nlazy dog | #40 | #50\nover the dog | #60 | the average token")
    sums, each = text_sums(state), alone(state)
    for number, one in enumerate(each):
        assert sums.totals[number] == pytest.approx(one.total, abs=1e-9)
        np.testing.assert_allclose(sums.cells[number, 1:, :-1], one.heads.sum(-1), rtol=0, atol=1e-9)
        mlps = sums.cells[number, 1:, -1][[*state.run.mlp_layers]]
        np.testing.assert_allclose(mlps, one.mlps.sum(-1), rtol=0, atol=1e-9)
        assert sums.shares((-1, 0))[number] == pytest.approx(one.constant + one.bias, abs=1e-9)
        assert sums.shares(writer_places(state)["embeddings"])[number] == pytest.approx(
            float(one.embeddings.sum()), abs=1e-9
        )
    heads = torch.stack([one.heads.sum(-1) for one in each]).numpy()
    numbers = mean_shares(state, sums)
    np.testing.assert_allclose(numbers.values, heads.mean(0), rtol=0, atol=1e-9)
    np.testing.assert_allclose(sums.cell_errors[1:, :-1], heads.std(0, ddof=1) / 3**0.5, rtol=0, atol=1e-9)


def test_the_shares_of_a_text_add_up_to_the_difference_of_its_logits(saved) -> None:
    state = tiny(saved)
    sums, model = text_sums(state), state.source.model()
    for number, (text, metric) in enumerate(state.measured):
        with torch.no_grad():
            logits = model.model(**model.encode(text.text).batch).logits[0, -1].double()
        other = logits.mean() if metric.other == "mean" else logits[metric.other]
        by_hand = float(logits[metric.token] - other)
        assert np.nansum(sums.cells[number]) == pytest.approx(by_hand, abs=1e-4)
        assert sums.totals[number] == pytest.approx(by_hand, abs=1e-4)


@pytest.mark.parametrize("writer", ["layer 1, head 2", MLP, "embeddings"])
def test_texts_stand_in_the_order_of_the_share_and_open_alone(saved, writer: str) -> None:
    state = tiny(saved)
    place = writer_places(state)[writer]
    state = state.updated(writer=place)
    values, blocks = text_sums(state).shares(place), [*every_block(why(state))]
    items = [item for block in blocks if isinstance(block, Listing) for item in block.items]
    order = np.argsort(-values, kind="stable")
    for item, number in zip(items, order, strict=True):
        [link] = [part.link for part in item if isinstance(part, Anchor)]
        opened, text = read_state("why", link), state.measured[number][0]
        assert not any((opened.problem, opened.refused))
        assert (opened.text, opened.token, opened.other) == (text.text, text.token or "fox", text.other or "lazy")
        shown = why_answer(opened)
        assert shown.numbers.value(place) == pytest.approx(values[number], abs=1e-9)
        if writer != "embeddings":
            assert shown.place(shown.term) == place
    assert [block.name for block in blocks if isinstance(block, Figure)] == [
        "why-texts-grid", "why-texts-sum", "why-distribution"
    ]  # fmt: skip


def test_every_cell_of_the_grid_and_of_the_table_chooses_what_wrote_it(saved) -> None:
    state = tiny(saved)
    blocks = [*every_block(why(state))]
    grid = next(block for block in blocks if isinstance(block, Figure))
    tiles = [grid.picture.spec.corner(tile) for tile in range(grid.picture.spec.rows * grid.picture.spec.columns)]
    opened = [read_state("why", link).writer for tile in tiles if (link := grid.opens(*tile))]
    assert {*opened} == {*writer_places(state).values()}
    table = next(block for block in blocks if isinstance(block, Table))
    assert all(read_state("why", row[0].link).writer is not None for row in table.rows)
    [without] = [each for each in anchors(blocks) if each.page == "effects"]
    effects = read_state("effects", without.link)
    assert not any((effects.problem, effects.refused))
    assert (effects.inspect, effects.many, effects.head) == (MANY_TEXTS, LINES, first_head(blocks))


def first_head(blocks):
    """The head of the table that is shown without a choice."""
    table = next(block for block in blocks if isinstance(block, Table))
    return read_state("why", table.rows[table.marked][0].link).writer


def anchors(blocks):
    paragraphs = [block.content for block in blocks if type(block).__name__ == "Paragraph"]
    return [
        part for content in paragraphs if isinstance(content, tuple) for part in content if isinstance(part, Anchor)
    ]


def test_the_largest_mean_shares_are_those_of_the_library(saved) -> None:
    state = tiny(saved)
    shares = torch.stack([one.heads.sum(-1) for one in alone(state)]).mean(0)
    mlps = torch.stack([one.mlps.sum(-1) for one in alone(state)]).mean(0)
    numbers = mean_shares(state, text_sums(state))
    most = max(float(shares.max()), float(mlps.max()), *numbers.inputs)
    least = min(float(shares.min()), float(mlps.min()), *numbers.inputs)
    places = [*writer_places(state).values()]
    named = [f"{numbers.name(place)}: {numbers.text(place)}" for place in sorted(places, key=numbers.value)]
    values = sorted(map(numbers.value, places))
    assert (values[0], values[-1]) == (pytest.approx(least), pytest.approx(most))
    text = summary(said("why", why_model=saved / "gpt2", text=TEXT, says="fox", rather_than="lazy",
                        inspect=MANY_TEXTS, many_texts=LINES))  # fmt: skip
    assert f"for it is that of {named[-1]}." in text
    assert f"against it is that of {named[0]}." in text


def test_a_decoder_is_asked_after_the_last_token_that_it_has_written() -> None:
    state = WhyState(model=TRANSLATOR, inspect=MANY_TEXTS)
    sums = text_sums(state)
    assert np.nansum(sums.cells, (1, 2)) == pytest.approx(sums.totals, abs=1e-5)
    items = [item for block in every_block(why(state)) if isinstance(block, Listing) for item in block.items]
    for item in items:
        opened = read_state("why", item[-1].link)
        assert not any((opened.problem, opened.refused))
        assert opened.position == len(opened.run.predicting) - 1
        assert min(abs(sums.totals - why_answer(opened).attribution.total)) < 1e-5


def test_sums_come_text_by_text_after_all_have_been_read(saved) -> None:
    parts: list = []
    text_sums(tiny(saved), lambda share, sums: parts.append((share, len(sums.measured), sums.is_complete)))
    assert parts == [(pytest.approx(1 / 3), 1, False), (pytest.approx(2 / 3), 2, False), (1.0, 3, True)]
    parts.clear()
    with pytest.raises(ValueError, match=r"^Text 2: "):
        text_sums(tiny(saved, many=f"{TEXT}\n{'fox ' * 400}"), lambda *part: parts.append(part))
    assert parts == []


def test_lists_and_models_that_have_no_sum_are_refused(saved) -> None:
    with pytest.raises(ValueError, match=f"Between 1 and {MOST_MEASURED} texts"):
        tiny(saved, many="a fox\n" * (MOST_MEASURED + 1)).measured  # noqa: B018
    with pytest.raises(ValueError, match="compared with itself"):
        tiny(saved, many=f"{TEXT} | fox | fox").measured  # noqa: B018
    with pytest.raises(ValueError, match="neither a next token nor a label"):
        said("why", why_model=MINILM, inspect=MANY_TEXTS)


def test_what_is_refused_keeps_the_last_list_of_the_app(saved) -> None:
    link = {"why-model": saved / "gpt2", "text": TEXT, "many-texts": LINES}
    app = open_page("why", **link, inspect=MANY_TEXTS)
    until(lambda: not ok(app.run()).get("progress"), pause=0.1)
    before = summary(contents(app))
    assert "Over 3 texts, the logit of what a text says above that of the other is" in before
    app.text_area(key="many-texts").set_value("a fox\n" * 51).run()
    assert "Between 1 and 50 texts are read" in errors(app)
    assert summary(contents(app)) == before
    assert app.text_area(key="many-texts").value == "a fox\n" * 51
