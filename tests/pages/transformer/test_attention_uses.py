"""The three uses of attention, and how they form in the training."""

import numpy as np
import pytest

import attnviz
from attnviz.page.blocks import Figure, Summary, every_block
from attnviz.pages.catalogue import page_blocks
from attnviz.pages.transformer.attention_uses import selected_weights
from attnviz.pages.transformer.blocks import transformer
from attnviz.pages.transformer.state import THREE_USES, TRAINING, TransformerState
from attnviz.pages.transformer.translated_text import translated_text
from attnviz.translator import load

CAT = "the small black cat does not look at the birds ."


def figures(state: TransformerState) -> dict[str, Figure]:
    return {block.name: block for block in every_block(transformer(state)) if isinstance(block, Figure)}


@pytest.mark.parametrize(("use", "record"), [("encoder", 1), ("decoder", 4), ("cross", 5)])
def test_each_map_has_the_weights_of_the_selected_head(use: str, record: int) -> None:
    state = TransformerState(text=CAT, tab=THREE_USES, **{f"{use}_head": (1, 2)})
    queries, keys, weights = selected_weights(state, use)  # type: ignore[arg-type]
    own = load().translate(CAT).steps[-1].records[record].weights[0, 2].numpy()
    np.testing.assert_allclose(np.nan_to_num(weights), own, atol=1e-5)
    assert keys == tuple(
        (CAT if use != "decoder" else "<start> le petit chat noir ne regarde pas les oiseaux .").split()
    )
    assert queries[2] == ("black" if use == "encoder" else "petit → chat")


def test_a_click_on_a_row_or_a_head_opens_it() -> None:
    state = TransformerState(text=CAT, tab=THREE_USES)
    drawn = figures(state)
    for name, row, expected in [
        ("encoder-map", 3, {"row": 3}),
        ("decoder-map", 6, {"word": 7}),
        ("cross-map", 6, {"word": 7}),
    ]:
        opens = drawn[name].opens
        assert opens is not None
        assert TransformerState.read(opens(row, 0) or ()) == state.updated(**expected)
    heads = drawn["decoder-heads"]
    assert heads.opens is not None
    row, column = heads.picture.spec.corner(2)  # of layer 0
    assert TransformerState.read(heads.opens(row, column) or ()) == state.updated(decoder_head=(0, 2))


def test_the_words_that_a_french_word_translates_have_an_outline() -> None:
    right = load().translate(CAT).alignment
    state = TransformerState(text=CAT, tab=THREE_USES)
    assert state.alignment == right
    assert TransformerState(text=CAT, written="le chat", tab=THREE_USES).alignment == ()


@pytest.mark.parametrize(
    ("model", "uses"),
    [
        ("attnviz/translator-en-fr", ["encoder", "decoder", "cross"]),
        ("sentence-transformers/all-MiniLM-L6-v2", ["encoder"]),
        ("HuggingFaceTB/SmolLM2-135M-Instruct", ["decoder"]),
    ],
)
def test_a_model_shows_the_uses_that_it_has(model: str, uses: list[str]) -> None:
    state = TransformerState(model=model, tab=THREE_USES)
    assert [*state.uses] == uses
    assert {name.split("-")[0] for name in figures(state)} == set(uses)


@pytest.mark.parametrize("step", [0, 200, 2400])
def test_a_step_has_the_maps_and_words_of_its_checkpoint(step: int) -> None:
    view = attnviz.view(f"transformer?tab={TRAINING.replace(' ', '+')}&step={step}")
    then = load("scaled dot", step)
    forced = then.teacher_forced(
        ("the", "small", "red", "car", "is", "beautiful", "."),
        ("la", "petite", "voiture", "rouge", "est", "belle", "."),
    )
    layer, head = TransformerState(tab=TRAINING).heads["cross"]
    expected = forced.steps[-1].records[3 + 2 * layer].weights[0, head].numpy()
    np.testing.assert_allclose(view.panels[-1].weights, expected, atol=1e-5)
    link = (("tab", TRAINING), ("step", str(step)))
    (summary,) = [block for block in every_block(page_blocks("transformer", link)) if isinstance(block, Summary)]
    written = translated_text(then.translate("the small red car is beautiful ."))
    assert str(written) in map(str, summary.content)  # type: ignore[call-overload]


def test_wrong_words_are_struck_out_and_many_repetitions_counted() -> None:
    early = translated_text(load("scaled dot", 200).translate("the small red car is beautiful ."))
    assert "<s>le</s>" in early
    assert "voiture" in early
    assert "<s>voiture</s>" not in early
    first = load("scaled dot", 0).translate("the small red car is beautiful .")
    assert "×" in translated_text(first)
