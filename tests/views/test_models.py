"""What a link to Models shows, without the page: each tab's maps are those of the library."""

from pathlib import Path

import numpy as np
import pytest
import torch

import attnviz
from attnviz.analysis.aggregation import aggregate_heads, rollout
from attnviz.analysis.head_maps import Aggregate, head_map
from attnviz.formatting import visible
from attnviz.layer import Layer
from attnviz.masks import Causal
from attnviz.models import model_cache
from attnviz.models.intervention_run import run_with_interventions
from attnviz.models.interventions import Intervention
from attnviz.models.minilm import minilm
from attnviz.page.page_view import PageView
from attnviz.state.models import ModelsState
from attnviz.text import EXAMPLE
from attnviz.views import text_probabilities
from tests.support.tiny_models import TEXT

LAYERS = minilm().layers(EXAMPLE)


def shown(link: str) -> PageView:
    return attnviz.view(f"/models?{link}")


def weights(layer: Layer, head: int) -> np.ndarray:
    return head_map(layer.inputs, layer.mechanism, head).numpy()


def near(view: PageView, *expected: np.ndarray) -> None:
    for panel, one in zip(view.panels, expected, strict=True):
        np.testing.assert_allclose(panel.weights, one, atol=1e-6)


def test_the_first_tab_has_the_head_and_its_quantities() -> None:
    view = shown("layer=encoder+2&head=Head+8&pinned=10+·+it")
    near(view, weights(LAYERS[2], 8))
    assert view.panels[0].row == 10
    assert view.quantities["weight of animal"] == pytest.approx(weights(LAYERS[2], 8)[10, 2], abs=1e-6)


def test_what_if_has_the_head_as_trained_and_changed() -> None:
    changed = Intervention(Causal(), ablated=((1, 4),), layers=(3,))
    after = run_with_interventions(minilm(), [changed], EXAMPLE).layers
    view = shown("inspect=What+if&if-mask=Causal&if-off=encoder+1,+head+4&if-where=This+layer")
    near(view, weights(LAYERS[3], 1), weights(after[3], 1))
    assert [panel.title for panel in view.panels] == ["As trained: encoder 3, head 1", "Changed: encoder 3, head 1"]
    unchanged = shown("inspect=What+if")
    near(unchanged, weights(LAYERS[3], 1), weights(LAYERS[3], 1))


@torch.no_grad()
def test_what_if_has_the_probability_of_each_token_of_a_decoders_text(saved: Path, isolated: None) -> None:
    model = model_cache.model(str(saved / "gpt2"))
    ids, tokens = model.text_inputs.encode(TEXT)
    ids = ids["input_ids"]
    link = f"inspect=What+if&model={saved / 'gpt2'}&text={TEXT}&if-mask=Full"
    quantities = shown(link).quantities
    count = ids.shape[1]
    everywhere = model.model(ids, attention_mask=torch.zeros(1, 1, count, count)).logits[0].softmax(-1)
    seen: dict[str, int] = {}
    for i in range(1, count):
        name = visible(tokens.tokens[i])
        seen[name] = seen.get(name, 0) + 1
        name += f" ({seen[name]})" if seen[name] > 1 else ""
        alone = model.model(ids[:, :i]).logits[0, -1].softmax(-1)  # of a text that ends before the token
        assert quantities[f"probability of {name}"] == pytest.approx(float(alone[ids[0, i]]), rel=1e-4)
        changed = float(everywhere[i - 1, ids[0, i]])
        assert quantities[f"probability of {name} changed"] == pytest.approx(changed, rel=1e-4)
    every = [value for name, value in quantities.items() if name.startswith("probability") and "changed" not in name]
    assert len(every) == count - 1
    assert quantities["mean probability"] == pytest.approx(float(np.mean(every)))


def test_no_probabilities_of_a_text_that_is_long_or_not_predicted(
    saved: Path, isolated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not shown("inspect=What+if").quantities  # all-MiniLM-L6-v2 is an encoder
    assert not shown(f"inspect=What+if&model={saved / 't5'}&text={TEXT}").quantities
    monkeypatch.setattr(text_probabilities, "MOST_TOKENS", 4)
    assert not shown(f"inspect=What+if&model={saved / 'gpt2'}&text={TEXT}").quantities


@pytest.mark.parametrize("name", ["Mean", "Maximum", "Minimum"])
def test_heads_are_taken_together(name: str) -> None:
    heads = [(1, 3), *((2, head) for head in range(12))]
    expected = aggregate_heads(LAYERS, heads, Aggregate[name.upper()])
    chosen = "heads-together=encoder+2&heads-together=encoder+1,+head+3"
    near(shown(f"inspect=Together&together={name}&{chosen}"), expected.numpy())


def test_layers_are_rolled_out_and_values_weighted() -> None:
    expected = rollout(LAYERS[:3])
    near(shown("inspect=Together&together=Rollout&rollout-to=encoder+2"), expected.numpy())
    lengths = LAYERS[3].inputs.value_of(1).norm(dim=-1).numpy()
    near(shown("inspect=Together&together=Value-weighted"), weights(LAYERS[3], 1) * lengths)
    each = [weights(LAYERS[3], head) * LAYERS[3].inputs.value_of(head).norm(dim=-1).numpy() for head in range(12)]
    for name, together in (("Mean", np.mean), ("Maximum", np.max)):
        near(shown(f"inspect=Together&together=Value-weighted&head={name}+of+heads"), together(each, 0))


def test_a_model_in_a_link_is_never_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*_arguments: object) -> None:
        raise AssertionError("a download")

    monkeypatch.setattr("attnviz.models.hub.Hub.find", fetch)
    monkeypatch.setattr("attnviz.models.hub.Hub.fetch", fetch)
    for name, reason in (
        ("org/model", "has to be downloaded first"),
        ("/nowhere", "There is no folder"),
        ("https://example.org/a/b", "not of the Hugging Face hub"),
    ):
        with pytest.raises(ValueError, match=reason):
            shown(f"model={name}")
    monkeypatch.setenv("ATTNVIZ_MODELS", "")
    for name in ("org/model", "/nowhere"):
        with pytest.raises(ValueError, match="shows only the models that its owner lists"):
            shown(f"model={name}")


def test_a_folder_has_its_own_attention(saved: Path, isolated: None) -> None:
    layers = model_cache.model(str(saved / "gpt2")).layers(TEXT)
    view = shown(f"model={saved / 'gpt2'}&text={TEXT}&layer={layers[1].name}&head=Head+2")
    near(view, weights(layers[1], 2))


def test_a_model_that_sees_reads_no_text(saved: Path, isolated: None) -> None:
    layer = model_cache.model(str(saved / "vit")).layers()[0]
    near(shown(f"model={saved / 'vit'}&text=ignored"), weights(layer, 0))


def test_what_stays_in_the_session_is_not_written_into_a_link() -> None:
    with pytest.raises(ValueError, match="A text of more than 2,000 characters is not in the link"):
        ModelsState(text="the cat " * 255).link()
