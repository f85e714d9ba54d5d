"""What a link to Transformer shows: the weights that the translator computed, as trained and as changed."""

from urllib.parse import parse_qsl

import numpy as np
import pytest
import torch

import attnviz
from attnviz.masks import Band, Causal, Full
from attnviz.models.interventions import Intervention
from attnviz.normalizers import Softmax
from attnviz.page.page_view import PageView
from attnviz.scores import Cosine
from attnviz.state.transformer import MASKS, TransformerState
from attnviz.translator import EXAMPLES, VARIANTS, TranslationStep, load, parse_sentence, training_log
from attnviz.translator.encoder_decoder import HEADS, LAYERS, USE_LAYERS, USES, Use
from attnviz.views.transformer import head_ablations

NEGATED = "the old king does not see the young birds ."


def view(link: str) -> PageView:
    return attnviz.view(f"transformer?{link}")


def ran(step: TranslationStep, use: Use, head: int) -> np.ndarray:
    """The weights of a head of a use, numbered across layers."""
    return torch.cat([one.weights[0] for one in step.records if one.use == use])[head].numpy()


def check(shown: PageView, step: TranslationStep, heads: dict[Use, int]) -> None:
    assert len(shown.panels) == len(heads)
    for panel, (use, head) in zip(shown.panels, heads.items(), strict=True):
        expected = ran(step, use, head)
        rows, keys = expected.shape
        np.testing.assert_allclose(np.nan_to_num(panel.weights[:rows, :keys]), expected, atol=1e-5)
        assert np.isnan(panel.weights[rows:]).all()
        assert panel.title.startswith(USES[use])


def test_the_three_uses_have_the_weights_that_ran_in_this_step() -> None:
    shown = view("word=4&encoder-head=Layer+0,+head+2&cross-head=Schicht+1,+Kopf+1&encoder-row=1+·+small")
    check(shown, load().translate(EXAMPLES[0]).steps[3], {"encoder": 2, "decoder": 7, "cross": 5})
    assert [panel.row for panel in shown.panels] == [1, 3, 3]
    assert shown.panels[1].title == "Decoder self-attention, layer 1, head 3"
    assert shown.quantities["weight of car for small in the encoder"] == pytest.approx(
        float(ran(load().translate(EXAMPLES[0]).steps[3], "encoder", 2)[1, 3]), abs=1e-5
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_changed_on_what_if_is_run(variant: str) -> None:
    link = (
        "tab=What+if&encoder-mask=Band&encoder-mask.width=1&decoder-mask=Full&decoder-off-1=3&decoder-off-1=0"
        "&cross-score=Cosine&cross-score.tau=0.1&cross-normalizer.temperature=3"
    )
    interventions = (
        Intervention(Band(1), layers=USE_LAYERS["encoder"]),
        Intervention(Full(), ablated=((4, 0), (4, 3)), layers=USE_LAYERS["decoder"]),
        Intervention(score=Cosine(0.1), normalizer=Softmax(3.0), layers=USE_LAYERS["cross"]),
    )
    state = TransformerState.read(parse_qsl(link))
    assert state.interventions == interventions
    changed = load(variant).translate(EXAMPLES[0], interventions)
    heads = dict.fromkeys(USES, 2)
    names = "".join(f"&{use}-head=Layer+0,+head+2" for use in USES)
    last = len(load(variant).translate(EXAMPLES[0]).steps)
    check(view(f"{link}&similarity={variant.capitalize()}{names}&word={last}"), changed.steps[-1], heads)
    check(view(f"{link}&similarity={variant.capitalize()}{names}&word=2"), changed.steps[1], heads)
    # On another tab nothing is changed.
    elsewhere = link.replace("tab=What+if&", f"similarity={variant.capitalize()}&") + names
    check(view(f"{elsewhere}&word=2"), load(variant).translate(EXAMPLES[0]).steps[1], heads)


def test_the_masks_of_the_fields_are_those_of_the_trained_model() -> None:
    assert {"encoder": Full(), "decoder": Causal(), "cross": Full()} == MASKS  # as in the paper
    for layer in load().translate(EXAMPLES[0]).layers():
        use = "cross" if layer.id.cross else layer.id.stack
        assert layer.mechanism.mask == MASKS[use]
        assert layer.mechanism.normalizer == Softmax()


@pytest.mark.parametrize(
    ("link", "use", "head", "step"),
    [
        ("step=200&map=Decoder,+layer+0,+head+2", "decoder", 2, 200),
        ("step=2%E2%80%AF400&map=Encoder-Decoder,+Schicht+1,+Kopf+0", "cross", 4, 2400),
        ("step=0", "cross", int(np.argmax(training_log().evaluations[-1].agreement)), 0),
    ],
)
def test_how_attention_forms_has_the_map_at_a_checkpoint(link: str, use: Use, head: int, step: int) -> None:
    (panel,) = view(f"tab=How+attention+forms&{link}").panels
    right = parse_sentence(tuple(EXAMPLES[0].split())).french
    forced = load(step=step).teacher_forced(tuple(EXAMPLES[0].split()), right)
    np.testing.assert_allclose(np.nan_to_num(panel.weights), ran(forced.steps[-1], use, head), atol=1e-5)


def test_a_training_of_a_session_is_not_in_the_link() -> None:
    with pytest.raises(ValueError, match="A training in this session is not in the link"):
        view("tab=How+attention+forms&training=Train+in+this+session")
    assert len(view("training=Train+in+this+session&trained-step=9").panels) == 3  # of another tab


def test_the_tables_of_other_tabs_are_quantities() -> None:
    several = view(f"tab=Several+heads&english={NEGATED.replace(' ', '+')}")
    ablations = [Intervention(ablated=((layer, head),)) for layer in USE_LAYERS["decoder"] for head in range(HEADS)]
    texts = [load().translate(NEGATED, [ablation]).text for ablation in ablations]
    changed = [text for text in texts if text != load().translate(NEGATED).text]
    assert several.quantities == {"heads that change the translation": len(changed)}
    assert view("tab=Before+attention").quantities["words"] == 7
    assert view("tab=In+symbols").quantities == {}


@pytest.mark.parametrize("tab", ["What if", "Three uses", "Before attention", "How attention forms"])
def test_an_unknown_word_is_a_sentence(tab: str) -> None:
    with pytest.raises(ValueError, match="zebra"):
        view(f"tab={tab.replace(' ', '+')}&english=the+zebra")


def test_heads_are_numbered_across_layers() -> None:
    state = TransformerState(encoder_head=HEADS, english=NEGATED)
    assert ("encoder-head", "Layer 1, head 0") in state.link()


def test_each_head_is_ablated_by_itself(as_installed: None) -> None:
    found = head_ablations(TransformerState(), "encoder")
    assert [(one.layer, one.head) for one in found] == [
        (layer, head) for layer in range(LAYERS) for head in range(HEADS)
    ]
    for one in found:
        expected = load().translate(EXAMPLES[0], [Intervention(ablated=((one.layer, one.head),))])
        assert one.translation.french == expected.french
        assert 0 <= one.exact <= 1
    assert found[7].translation.text == "les petits voiture rouge est belle."  # its head of agreement
    assert found[7].exact < min(one.exact for one in found[:7])
