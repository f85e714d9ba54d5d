"""The Heads page: numbers of all heads on a text, on repeated random tokens, and of a fact hidden in a long text."""

import functools
import gc
import weakref
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
import transformers as hf

from attnviz.analysis.head_detectors import COPY_SUPPRESSION, DETECTORS
from attnviz.attribution.text_attribution import read_text
from attnviz.base.text import EXAMPLE
from attnviz.layer import Kind
from attnviz.models import MINILM
from attnviz.models.loading import inspect_folder
from attnviz.models.minilm import minilm
from attnviz.models.random_tokens import repeated_random_tokens
from attnviz.page.blocks import Block, Figure, Note, Summary, Table, every_block, page_view
from attnviz.page.head_state import HeadState
from attnviz.pages.effects.head_circuits import circuits_of_model
from attnviz.pages.effects.state import EffectsState
from attnviz.pages.heads.blocks import detection_of_model, heads
from attnviz.pages.heads.state import HIDDEN_FACT, REPEATED, HeadsState, head_measures
from attnviz.sources.haystack import FACT, QUESTION, Haystack
from tests.support.tiny_models import TEXT

B = TypeVar("B", bound=Block)
TOKENS = len(FACT.replace(".", " .").split())  # of the fact: MiniLM has a token for each of its words


def of(block_type: type[B], /, **link: object) -> list[B]:
    """The blocks of a kind that a link opens."""
    opened = HeadsState.read([(name.replace("_", "-"), str(text)) for name, text in link.items()])
    assert not opened.problem
    return [block for block in every_block(heads(opened)) if isinstance(block, block_type)]


def grid(**link: object) -> np.ndarray:
    """The numbers of all heads."""
    return of(Figure, **link)[0].panels[-1].weights


@functools.cache
def ran(text: str = EXAMPLE) -> tuple[np.ndarray, list[str]]:
    """The weights of all layers and heads of MiniLM, as the model itself computes them, and the tokens."""
    kept = minilm()
    inputs = kept.encode(text)
    with kept.lock, torch.no_grad():
        attentions = kept.model(**inputs.batch, output_attentions=True).attentions
    return torch.cat(attentions).double().numpy(), list(inputs.source.tokens)


def near(shown: Any, expected: Any) -> None:
    np.testing.assert_allclose(shown, expected, atol=2e-6)


def test_numbers_of_a_text_are_those_of_the_weights_of_the_model() -> None:
    weights, tokens = ran()
    n, link = len(tokens), {"why_model": MINILM, "text": EXAMPLE}
    near(grid(**link, kind="previous-token head"), weights.diagonal(-1, 2, 3).mean(-1))
    near(grid(**link, kind="Next token"), weights.diagonal(1, 2, 3).mean(-1))
    near(grid(**link, kind="Itself"), weights.diagonal(0, 2, 3).mean(-1))
    near(grid(**link, kind="attention sink"), weights[..., 0].mean(-1))
    near(grid(**link, kind="Special tokens"), (weights[..., 0] + weights[..., -1]).mean(-1))
    near(grid(**link, kind="Largest weight"), weights.max(-1).mean(-1))
    distance = np.abs(np.arange(n)[:, None] - np.arange(n))
    near(grid(**link, kind="Distance"), (weights * distance).sum(-1).mean(-1))


def test_tokens_are_left_out_as_queries_and_as_keys() -> None:
    link = {"why_model": MINILM, "text": EXAMPLE, "leave_out": "Special tokens"}
    inner = ran()[0][..., 1:-1, 1:-1]
    near(grid(**link, kind="Row sum"), inner.sum(-1).mean(-1))
    near(grid(**link, kind="Itself"), inner.trace(axis1=2, axis2=3) / inner.sum((-1, -2)))
    [summary] = of(Summary, **link, kind="Special tokens")
    assert summary.content == "No head here has a number for “Special tokens”."


def test_a_head_is_a_point_of_two_numbers() -> None:
    link = {"why_model": MINILM, "text": EXAMPLE, "kind": "attention sink", "against": "Itself"}
    figure = of(Figure, **link, effects_head="encoder 2, head 5")[0]
    weights, _tokens = ran()
    across, up = weights.diagonal(0, 2, 3).mean(-1), weights[..., 0].mean(-1)
    points, ring = figure.picture.figure.data[:2]
    near(points.x, across.flatten())
    near(points.y, up.flatten())
    near([ring.x[0], ring.y[0]], [across[2, 5], up[2, 5]])
    assert ("effects-head", "encoder 1, head 7") in figure.opens(19, 0)
    assert [panel.title for panel in figure.panels] == ["Itself", "attention sink"]


def test_the_strongest_heads_lead_to_the_map_explore_and_effects() -> None:
    link = {"text": "apple river stone apple river", "kind": "induction head"}
    table = of(Table, **link)[0]
    assert ("effects-head", "layer 13, head 2") in table.rows[0][0].link
    chosen = dict(table.rows[0][0].link)
    state = HeadsState.read(chosen.items())
    assert state.head == (13, 2)
    figure = of(Figure, **{name.replace("-", "_"): text for name, text in chosen.items()})[-1]
    assert figure.panels[0].title == "layer 13, head 2"
    for kind, page in ((HeadState, "explore"), (EffectsState, "effects")):
        [anchor] = [
            anchor
            for block in every_block(heads(state))
            for anchor in (getattr(block, "content", ()) if isinstance(getattr(block, "content", ()), tuple) else ())
            if getattr(anchor, "page", "") == page
        ]
        opened = kind.read(anchor.link)
        assert not opened.refused
        assert (getattr(opened, "layer", 13), opened.head) in ((13, 2), (13, (13, 2)))


def test_heads_of_each_kind_are_listed() -> None:
    kinds = of(Table, inspect=REPEATED)[-1]
    named = {row[0]: row[1] for row in kinds.rows}
    assert len(named) == len(DETECTORS)
    assert named["induction head"][0][0].text == "18.6"
    assert ("kind", "induction head") in named["induction head"][0][0].link


def test_random_tokens_are_measured_as_transformers_attends_to_them() -> None:
    own = hf.AutoModel.from_pretrained(minilm.inspect().path, attn_implementation="eager").eval()
    scores = []
    for seed in (0, 1, 2):
        batch, *_ = repeated_random_tokens(minilm().text_inputs, seed, decoder=False)
        with torch.no_grad():
            weights = torch.cat(own(**batch, output_attentions=True).attentions, 0)
        # [CLS], 50 tokens, the same again, [SEP]: each of the second half looks at what came after it.
        scores.append(weights[..., range(51, 101), range(2, 52)].mean(-1))
    link = {"why_model": MINILM, "inspect": REPEATED, "kind": "induction head"}
    near(grid(**link), torch.stack(scores).mean(0))
    [note] = of(Note, **link)
    assert "Over 150 queries of 3 texts of repeated random tokens. The map is of your text." in note.content


def test_kinds_of_heads_are_those_that_detectors_find() -> None:
    link = {"inspect": REPEATED, "kind": "induction head", "effects_head": "layer 24, head 4"}
    strongest, of_head, _kinds = of(Table, **link)
    assert [row[0].text for row in strongest.rows[:3]] == ["18.6", "17.3", "17.4"]
    assert strongest.rows[0][1] == "0.89"
    figure = of(Figure, **link)[0]
    tile = figure.picture.spec.names.index("layer 18, head 6: 0.89")
    assert figure.opens(*figure.picture.spec.corner(tile)) == strongest.rows[0][0].link
    numbers = dict(of_head.rows)
    assert float(numbers["copy-suppression head"]) > 0.1
    assert {one.name for one in DETECTORS} <= {*numbers}
    assert [summary.content for summary in of(Summary, **link)] == [
        "Layer 18, head 6 is the strongest induction head: 0.89."
    ]


def test_an_encoder_leaves_out_copying() -> None:
    link = {"why_model": MINILM, "inspect": REPEATED, "kind": COPY_SUPPRESSION.name}
    assert "norms or other maps lie in the residual stream" in of(Note, **link)[0].content
    assert of(Summary, **link)[0].content == "No head here has a number for “copy-suppression head”."


def test_heads_that_look_across_have_no_distance(saved) -> None:
    link = {"why_model": saved / "bart", "text": "the animal was too tired", "kind": "Distance"}
    distance = grid(**link)
    layers = HeadsState(model=str(saved / "bart"), text="the animal was too tired").layers
    for layer, row in zip(layers, distance, strict=True):
        assert np.isnan(row).all() == (layer.kind is Kind.CROSS)


def test_heads_without_a_number_have_no_point_and_it_is_said(saved) -> None:
    link = {"why_model": saved / "bart", "text": "the animal was too tired", "kind": "Distance", "against": "Entropy"}
    notes = [note.content for note in of(Note, **link)]
    assert "4 of 12 heads lack one of the numbers, and have no point." in notes
    assert "● Encoder self-attention · ■ Decoder self-attention · ◆ Encoder–decoder attention" in notes
    marker = of(Figure, **link)[0].picture.figure.data[0].marker
    assert [marker.symbol.count(shape) for shape in ("circle", "square", "diamond")] == [4, 4, 4]


def test_heads_far_from_the_others_have_labels() -> None:
    link = {"why_model": MINILM, "text": EXAMPLE, "kind": "previous-token head", "against": "Distance"}
    assert "0.2" in of(Figure, **link)[0].picture.figure.data[2].text  # it looks at the token before


def test_a_number_says_on_how_many_queries_it_rests() -> None:
    link = {"why_model": MINILM, "text": "a cat and a dog", "leave_out": "Special tokens"}
    assert of(Note, **link, kind="induction head")[0].content.endswith(" Over 1 query.")  # the second “a”
    assert of(Note, **link, kind="Distance")[0].content.endswith(" Over 5 queries.")


def test_a_text_that_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.pages.heads.blocks.MOST_MAP_WORK", 72 * 16 * 16)
    assert of(Figure, why_model=MINILM, text=EXAMPLE)
    with pytest.raises(ValueError, match="To measure all heads on 17 tokens takes too long here"):
        of(Figure, why_model=MINILM, text=f"{EXAMPLE} now")


def test_measures_are_those_that_a_tab_has() -> None:
    on_text, repeated = HeadsState(model=MINILM), HeadsState(model=MINILM, inspect=REPEATED)
    assert {*head_measures(repeated)} - {*head_measures(on_text)} == {"copying head", "copy-suppression head"}
    assert "Next token" in head_measures(on_text)
    assert "Next token" not in head_measures(HeadsState())  # a decoder has none to attend to


@pytest.mark.parametrize("depth", [0, 40])
def test_a_head_has_the_mass_that_its_weights_give_to_the_fact(depth: int) -> None:
    link = {"why_model": MINILM, "inspect": HIDDEN_FACT, "words": 100, "depth": depth}
    weights, tokens = ran(Haystack(100, depth).text)
    first = tokens.index("secret") - 1  # the fact comes before the question
    question = slice(len(tokens) - 1 - len(QUESTION.replace("?", " ?").split()), len(tokens) - 1)
    expected = weights[:, :, question, first : first + TOKENS].sum(-1).mean(-1)
    figure, shown = of(Figure, **link)
    np.testing.assert_allclose(figure.panels[0].weights, expected, atol=1e-5)
    bands = [(one.x0, one.x1, one.y0, one.y1) for one in shown.picture.figure.layout.shapes]
    last = len(tokens) - 0.5
    assert bands == [
        (-0.5, last, first - 0.5, first + TOKENS - 0.5),
        (-0.5, last, question.start - 0.5, question.stop - 0.5),
        (first - 0.5, first + TOKENS - 0.5, -0.5, last),
    ]
    largest = np.unravel_index(expected.argmax(), expected.shape)
    near(shown.panels[0].weights, weights[largest])
    [summary] = of(Summary, **link)
    assert f"of its attention to the fact; spread over all tokens alike, it would be {TOKENS / len(tokens):.2g}" in (
        summary.content
    )


def test_what_a_model_cannot_do_is_said(monkeypatch: pytest.MonkeyPatch, saved) -> None:
    assert "sees images" in HeadsState.read([("why-model", str(saved / "vit"))]).problem
    monkeypatch.setattr("attnviz.models.model.LoadedModel.limit", 48)
    with pytest.raises(ValueError, match="reads at most 48 tokens"):
        of(Figure, why_model=MINILM, inspect=HIDDEN_FACT)


def test_lessons_can_check_what_is_shown() -> None:
    opened = HeadsState(inspect=REPEATED, measure=DETECTORS[1], against=DETECTORS[0])
    numbers = page_view(heads(opened)).quantities
    assert numbers["number of 18.6"] == pytest.approx(0.885, abs=0.01)
    assert numbers["other number of 16.0"] == pytest.approx(0.90, abs=0.01)


def test_what_is_detected_of_a_model_ends_with_it(saved) -> None:
    loaded = inspect_folder(saved / "llama").load()
    run = read_text(loaded, "the cat")
    detection = weakref.ref(detection_of_model(loaded, lambda: circuits_of_model(loaded, run, "embedding")))
    assert detection() is not None
    loaded = run = None
    gc.collect()
    assert detection() is None


def test_a_small_share_does_not_make_a_kind(saved) -> None:
    [summary] = of(Summary, why_model=saved / "gpt2", text=f"{TEXT} {TEXT}", kind="induction head")
    assert summary.content.startswith("No head is a clear “induction head” here. The largest share, 0.")
