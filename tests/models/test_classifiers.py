"""Models with a head that gives labels: what is loaded of them, and what an intervention does to their labels."""

import pytest
import safetensors.torch
import torch
import transformers as hf

from attnviz.effects.intervention_run import likeliest_labels, run_with_interventions, token_labels
from attnviz.layer import Fidelity
from attnviz.masks import Causal
from attnviz.models.interventions import Intervention
from attnviz.models.loading import inspect_folder
from tests.support.tiny_models import SMALL, TEXT, word_pieces

LABELS = {0: "good", 1: "bad", 2: "<b>so-so</b>"}
CONFIG = {"vocab_size": 120, "max_position_embeddings": 64, "id2label": LABELS, **SMALL}
CAUSAL = Intervention(mask=Causal())


@pytest.fixture
def classifier(tmp_path):
    """A function that saves a classifier, and returns its folder and the model as transformers loads it."""

    def save(kind="BertForSequenceClassification", **config):
        torch.manual_seed(0)
        model = getattr(hf, kind)(hf.BertConfig(**CONFIG | config))
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.data *= 8
        model.save_pretrained(tmp_path)
        word_pieces().save_pretrained(tmp_path)
        return tmp_path, model.eval()

    return save


@pytest.mark.parametrize(
    ("kind", "outputs"),
    [("BertForSequenceClassification", "labels"), ("BertForTokenClassification", "token labels")],
)
def test_a_classifier_keeps_its_head(classifier, kind, outputs):
    folder, own = classifier(kind)
    model = inspect_folder(folder).load()
    assert (type(model.model).__name__, model.outputs) == (kind, outputs)
    assert model.labels == list(LABELS.values())
    loaded = model.model.state_dict()
    assert all(torch.equal(loaded[key], tensor) for key, tensor in own.state_dict().items())
    for pair in (None, "a lazy dog"):
        inputs = model.encode(TEXT, pair)
        with torch.no_grad():
            expected = own(**inputs.batch).logits[0]
        torch.testing.assert_close(model.output(inputs), expected.flatten(), atol=1e-4, rtol=1e-4)
    layers = model.layers(TEXT)
    assert [(layer.name, layer.fidelity) for layer in layers] == [
        ("encoder 0", Fidelity.VERIFIED),
        ("encoder 1", Fidelity.VERIFIED),
    ]


@pytest.mark.parametrize("missing", ["classifier.weight", "bert.pooler.dense.weight"])
def test_a_head_that_is_not_in_the_files_is_not_made_up(classifier, missing):
    folder, _ = classifier()
    weights = safetensors.torch.load_file(folder / "model.safetensors")
    del weights[missing]
    safetensors.torch.save_file(weights, folder / "model.safetensors", {"format": "pt"})
    model = inspect_folder(folder).load()
    assert (type(model.model).__name__, model.outputs) == ("BertModel", "")


def test_an_intervention_changes_the_labels(classifier):
    folder, own = classifier()
    model = inspect_folder(folder).load()
    inputs = model.encode(TEXT)
    before, after = model.output(inputs), run_with_interventions(model, [CAUSAL], TEXT).output
    allowed = torch.ones(len(inputs.source.tokens), len(inputs.source.tokens)).tril()[None, None]
    own.set_attn_implementation("eager")
    with torch.no_grad():
        expected = own(**inputs.batch | {"attention_mask": (1 - allowed) * torch.finfo(torch.float32).min}).logits[0]
    torch.testing.assert_close(after, expected, atol=1e-3, rtol=1e-3)
    labels = likeliest_labels(model, before, after)
    assert {one.text for one in labels} == {*LABELS.values()}
    for one in labels:
        place = model.labels.index(one.text)
        assert one.before == pytest.approx(before.double().softmax(-1)[place].item())
        assert one.after == pytest.approx(after.double().softmax(-1)[place].item())


def test_several_labels_may_hold_at_once(classifier):
    folder, _ = classifier(problem_type="multi_label_classification")
    model = inspect_folder(folder).load()
    logits = torch.tensor([0.0, 2.0, -1.0])
    labels = likeliest_labels(model, logits, logits)
    assert [one.text for one in labels] == ["bad", "good", "<b>so-so</b>"]
    assert [one.before for one in labels] == pytest.approx([0.8808, 0.5, 0.2689], abs=1e-4)


def test_the_labels_of_tokens(classifier):
    folder, _ = classifier("BertForTokenClassification")
    model = inspect_folder(folder).load()
    before, after = torch.tensor([[1.0, 0, 0], [0, 1, 0]]), torch.tensor([[1.0, 0, 0], [0, 0, 1]])
    labels = token_labels(model, before.flatten(), after.flatten())
    assert [(one.before, one.after) for one in labels] == [("good", "good"), ("bad", "<b>so-so</b>")]
