"""The viewer of a sum: any model and batch, its state, its answers to the browser, and its HTML."""

import gzip
import json
import re
from base64 import b64decode
from typing import Any

import pytest
import torch
import traitlets
import transformers as hf

import attnviz
from attnviz.attribution import Activation, Logit, LogitDifference, Score
from attnviz.attribution.sum_term import SumTerm, parse_term
from attnviz.figures.shares import signed
from attnviz.notebook.why_viewer import WhyViewer
from attnviz.notebook.why_widget import WhyWidget
from tests.ui.test_chart import unpacked

SIZES = {
    "vocab_size": 60, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
}  # fmt: skip
IDS = torch.tensor([[7, 8, 9, 5]])
TOKENS = ["</script><b>", "cat", "sat", "down"]


@pytest.fixture(scope="module")
def model() -> hf.LlamaForCausalLM:
    torch.manual_seed(0)
    return hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES)).eval()


@pytest.fixture
def widget(model: Any) -> WhyWidget:
    made = attnviz.why(model, IDS, Logit(3), tokens=TOKENS)
    assert isinstance(made, WhyWidget)
    return made


def content(widget: WhyWidget, monkeypatch: pytest.MonkeyPatch, trail: str = "", term: str = "") -> dict[str, Any]:
    """What the browser gets for a state."""
    sent: list[Any] = []
    monkeypatch.setattr(widget, "send", lambda content, buffers=None: sent.append((content, buffers)))
    widget._answer(None, {"request": "1", "content": [trail, term]}, [])
    [(answer, buffers)] = sent
    return unpacked(buffers[0])[0] if buffers else answer


def test_the_likeliest_token_is_asked_against_the_second(model: Any) -> None:
    viewer = attnviz.why(model, IDS)
    logits = model(IDS).logits[0, -1].detach()
    first, second = logits.topk(2).indices.tolist()
    assert viewer.metric == LogitDifference(first, second, -1)
    assert viewer.attribution.total == pytest.approx(float(logits[first] - logits[second]), abs=1e-5)
    assert repr(viewer).startswith(f"WhyWidget(Why does it say “#{first}” rather than “#{second}” after “3”?")


def test_padding_is_not_asked(model: Any) -> None:
    batch = {"input_ids": IDS, "attention_mask": torch.tensor([[1, 1, 1, 0]])}
    first, second = model(IDS[:, :3]).logits[0, -1].topk(2).indices.tolist()
    assert attnviz.why(model, batch).metric == LogitDifference(first, second, 2)


def test_a_tokenizer_reads_a_text_and_names_tokens(model: Any) -> None:
    loaded = attnviz.models.load("attnviz/translator-en-fr")  # type: ignore[attr-defined]
    asked = attnviz.why(loaded, "the cat sleeps .")
    batch = dict(loaded.encode("the cat sleeps .").batch)
    same = attnviz.why(loaded.model, batch, asked.metric, tokens=loaded.tokenizer)
    assert same.run.columns[:4] == asked.run.columns[:4] == ("the", "cat", "sleeps", ".")
    assert same.attribution.total == pytest.approx(asked.attribution.total, abs=1e-4)
    assert same.run.linearized.most_bytes == asked.run.linearized.most_bytes


CLASSES = {"id2label": {0: "bad", 1: "fair", 2: "good"}}
DIRECTION = torch.linspace(-1, 1, 32)


@pytest.mark.parametrize(
    ("make", "batch", "of", "question"),
    [
        (lambda: hf.BertForMaskedLM(hf.BertConfig(**SIZES)), IDS, LogitDifference(4, 5), "rather than “#5” at “3”?"),
        (lambda: hf.BertForSequenceClassification(hf.BertConfig(**SIZES, **CLASSES)), IDS, LogitDifference(0, 2),
         "Why does it say “bad” rather than “good”?"),
        (lambda: hf.BertForTokenClassification(hf.BertConfig(**SIZES, **CLASSES)), IDS, LogitDifference(0, "mean", 1),
         "Why does it say “bad” rather than the average token at “1”?"),
        (lambda: hf.BertForSequenceClassification(hf.BertConfig(**SIZES, num_labels=1)), IDS, None,
         "Why does it say “LABEL_0”?"),
        (lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES)), IDS, Logit(5, 2),
         "Why is the logit of “#5” at “2” what it is?"),
        (lambda: hf.BertModel(hf.BertConfig(**SIZES)), IDS, Score(1, 2, 3, 0),
         "Why does encoder 1, head 2 look from “3” at “0”?"),
        (lambda: hf.BertModel(hf.BertConfig(**SIZES)), IDS, Score(1, 2, 3, 0, over=1),
         "from “3” at “0” rather than at “1”?"),
        (lambda: hf.BertModel(hf.BertConfig(**SIZES)), {"input_ids": IDS, "output_hidden_states": True},
         Activation(1, 2, DIRECTION), "What is this direction of the residual stream at “2” made of?"),
        (lambda: hf.ViTForImageClassification(hf.ViTConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=32,
            patch_size=8, num_labels=3)), {"pixel_values": torch.ones(1, 3, 32, 32)}, LogitDifference(0, 1),
         "Why does it say “LABEL_0” rather than “LABEL_1”?"),
        (lambda: hf.T5ForConditionalGeneration(hf.T5Config(
            vocab_size=60, d_model=32, d_ff=64, num_layers=2, num_heads=4, d_kv=8)),
         {"input_ids": IDS, "decoder_input_ids": IDS[:, :3]}, LogitDifference(4, 5), "rather than “#5” after “2”?"),
    ],
)  # fmt: skip
def test_each_kind_of_model_and_number_has_its_question(make: Any, batch: Any, of: Any, question: str) -> None:
    torch.manual_seed(0)
    viewer = attnviz.why(make().eval(), batch, of)
    [[asked, number, _]] = (shown := viewer._content("", ""))["questions"]
    assert question in asked
    assert number == signed(viewer.attribution.total)
    shares = shown["charts"]["words"]["figure"]["data"][0]["y"]
    assert sum(shares) == pytest.approx(viewer.attribution.total - viewer.attribution.constant, abs=1e-4)


def test_links_open_what_they_say(widget: WhyWidget, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = attnviz.attribute(model, IDS, Logit(3))
    shown = content(widget, monkeypatch, term="1.2.3")
    [[_, number, start]] = shown["questions"]
    assert (number, start) == (signed(found.total), {"trail": "", "term": ""})
    largest = sorted(found.largest(10), key=lambda term: term.share * found.total < 0)
    for row, term in zip(shown["terms"]["rows"], largest, strict=True):
        [[_, opens]] = row[0]
        assert (row[2], opens) == (signed(term.share), {"trail": "", "term": str(SumTerm.from_share(term))})
    for row in shown["sources"]["rows"]:
        [[_, value]], [[_, key], [_, query]] = row[3:]
        question, layer, head, position, source = value["trail"].split(".")
        assert (question, layer, head, position, value["term"]) == ("value", "1", "2", "3", "")
        carried = found.opened(1, 2, 3, int(source))
        assert signed(carried.total) == row[2]
        assert content(widget, monkeypatch, **value)["questions"][-1][1] == row[2]
        score = found.attribute(Score(1, 2, 3, int(source), over="mean", side="key"))
        assert content(widget, monkeypatch, **key)["questions"][-1][1] == signed(score.total)
        assert content(widget, monkeypatch, **query)["questions"][-1][1] == signed(score.total)
        back = content(widget, monkeypatch, **value)["questions"][0]
        assert back[1:] == [number, start]


def test_a_cell_of_the_grid_opens_its_largest_term(widget: WhyWidget, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = content(widget, monkeypatch)["charts"]["grid"]
    shares = {SumTerm.from_share(term): abs(term.share) for term in widget.attribution.terms}
    assert len(grid["places"]) == len(grid["spec"]["names"]) == 15  # layers and the input, heads and the MLP
    for place, name in zip(grid["places"], grid["spec"]["names"], strict=True):
        if term := parse_term(place):
            same = [share for one, share in shares.items() if (one.layer, one.head) == (term.layer, term.head)]
            assert shares[term] == max(same)
        else:
            assert name.startswith("constant") or not name


def test_trail_and_term_are_traits(widget: WhyWidget) -> None:
    seen: list[str] = []
    widget.observe(lambda change: seen.append(change["new"]), "trail")
    widget.term = "mlp.1.3"
    assert widget.answer.term is not None
    assert (widget.answer.term.layer, widget.answer.term.head) == (1, None)
    widget.trail = "value.1.2.3.0"
    assert (widget.term, seen) == ("", ["value.1.2.3.0"])
    assert widget.attribution.total == pytest.approx(float(widget.answer.sums[0].sources(1, 2, 3)[0]), abs=1e-6)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("trail", "value.7.0.0.0", "There is no layer 7"),
        ("trail", "value.1.2.3.9", "There is no position 9"),
        ("trail", "import os", "not a list of at most 12 opened terms"),
        ("term", "head 3", "not a term of a sum"),
        ("term", "1.2.9", "There is no term 1.2.9"),
    ],
)
def test_what_is_not_there_cannot_be_opened(
    widget: WhyWidget, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    with pytest.raises(traitlets.TraitError, match=message):
        setattr(widget, name, value)
    assert (widget.trail, widget.term) == ("", "")
    answer = content(widget, monkeypatch, **{name: value})
    if value == "1.2.9":
        assert answer["term"].startswith("There is no such term in this sum.")
    else:
        assert message in answer["error"]


def test_a_page_has_the_sums_around_what_is_shown(widget: WhyWidget, monkeypatch: pytest.MonkeyPatch) -> None:
    widget.trail = "value.1.2.3.0"
    monkeypatch.setattr("attnviz.notebook.why_viewer.FILE_SUMS", 4)
    page = widget.to_html(title="Why")
    assert "</script><b>" not in page
    [text] = re.findall(r'<script type="application/json" data-attnviz-data="[^"]*">(.*?)</script>', page, re.S)
    held = {trail: unpacked(gzip.decompress(b64decode(one)))[0] for trail, one in json.loads(text)["contents"].items()}
    assert [*held][:2] == ["value.1.2.3.0", ""]
    assert len(held) == 4
    shown = held["value.1.2.3.0"]
    assert [question[1] for question in shown["sum"]["questions"]] == [signed(of.total) for of in widget.answer.sums]
    assert {*filter(None, shown["sum"]["charts"]["grid"]["places"])} < shown["terms"].keys()
    for trail, one in held.items():
        widget.trail = trail
        terms = {"", *(str(SumTerm.from_share(term)) for term in widget.attribution.largest(10))}
        assert terms <= one["terms"].keys()
        assert one["sum"]["questions"][-1][1] == signed(widget.attribution.total)


def test_a_cell_has_few_sums_and_what_is_shown_is_one_of_them(widget: WhyWidget) -> None:
    widget.trail, widget.term = "value.1.2.3.0", ""

    def held(limit: int) -> dict[str, str]:
        [text] = re.findall(r'data-attnviz-data="[^"]*">(.*?)</script>', widget._html(limit), re.S)
        return json.loads(text)["contents"]

    assert [*held(1)] == ["value.1.2.3.0"]
    assert [*held(1 << 20)] == ["value.1.2.3.0", ""]


def test_without_scripts_the_sum_is_a_sentence(widget: WhyWidget) -> None:
    fallback = re.search(r'<div data-attnviz="[^"]*" data-wait="\d+">(.*?)</div>', widget._output())
    assert fallback is not None
    assert "Why is the logit of “#3” at “down” what it is?" in fallback[1]
    assert "add up to" in fallback[1]


def test_without_anywidget_there_is_html(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.notebook.why_viewer.find_spec", lambda name: None)
    monkeypatch.setattr("attnviz.notebook.why_viewer.FILE_SUMS", 2)
    viewer = attnviz.why(model, IDS)
    assert type(viewer) is WhyViewer
    viewer.trail = "value.1.2.3.0"
    assert len(viewer.answer.sums) == 2
    assert "data-attnviz-library" in viewer.to_html()


@pytest.mark.parametrize(
    ("make", "batch", "of", "message"),
    [
        (lambda: hf.BertModel(hf.BertConfig(**SIZES)), IDS, None, "This model has no logits"),
        (lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES)), "a text", None, "a batch|A batch"),
        (lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES)), IDS, Logit(60), "There is no token 60"),
        (lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**SIZES)), IDS, Logit(5, 4), "There is no position 4"),
        (lambda: "attnviz/translator-en-fr", IDS, None, "reads a text, and this is a Tensor"),
        (lambda: "no/such-model", "a text", None, "no/such-model"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_a_sentence(make: Any, batch: Any, of: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        attnviz.why(make(), batch, of)


def test_a_pass_of_more_memory_than_is_allowed_is_refused(model: Any) -> None:
    with pytest.raises(ValueError, match="takes too much memory"):
        attnviz.why(model, IDS, most_bytes=1)
