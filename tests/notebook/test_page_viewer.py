"""A page in a notebook: a sum of any model and batch, its links, its answers to the browser, and its HTML."""

import gzip
import json
import re
from base64 import b64decode
from html import escape
from itertools import chain
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
import torch
import traitlets
import transformers as hf

import attnviz
from attnviz.attribution import Activation, Logit, LogitDifference, Score
from attnviz.attribution.sum_term import SumTerm, parse_term
from attnviz.figures.shares import signed
from attnviz.notebook.page_viewer import PageViewer
from attnviz.notebook.page_widget import PageWidget
from attnviz.page.blocks import Listing, Table, every_block
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
def widget(model: Any) -> PageWidget:
    made = attnviz.why(model, IDS, Logit(3), tokens=TOKENS)
    assert isinstance(made, PageWidget)
    return made


def content(widget: PageWidget, monkeypatch: pytest.MonkeyPatch, link: str = "") -> dict[str, Any]:
    """What the browser gets for a link."""
    sent: list[Any] = []
    monkeypatch.setattr(widget, "send", lambda content, buffers=None: sent.append((content, buffers)))
    widget._answer(None, {"request": "1", "page": link}, [])
    [(answer, buffers)] = sent
    return unpacked(buffers[0])[0] if buffers else answer


def nodes(tree: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """The nodes of a kind, in the order of reading."""
    found = []
    for node in tree:
        found += [node] if node["kind"] == kind else []
        for part in (node, *node.get("columns", ())):
            found += nodes(part.get("nodes", []), kind)
    return found


def html_of(shown: dict[str, Any]) -> str:
    return " ".join(each["html"] for each in nodes(shown["nodes"], "html"))


def blocks_of(viewer: PageViewer, kind: type) -> list[Any]:
    return [each for each in every_block(viewer.blocks) if isinstance(each, kind)]


def total(viewer: PageViewer) -> float:
    return viewer.quantities["total"]


def test_the_likeliest_token_is_asked_against_the_second(model: Any) -> None:
    viewer = attnviz.why(model, IDS)
    logits = model(IDS).logits[0, -1].detach()
    first, second = logits.topk(2).indices.tolist()
    assert total(viewer) == pytest.approx(float(logits[first] - logits[second]), abs=1e-5)
    assert repr(viewer).startswith(f"PageWidget(Why does it say “#{first}” rather than “#{second}” after “3”?")


def test_padding_is_not_asked(model: Any) -> None:
    batch = {"input_ids": IDS, "attention_mask": torch.tensor([[1, 1, 1, 0]])}
    _first, second = model(IDS[:, :3]).logits[0, -1].topk(2).indices.tolist()
    assert f"rather than “#{second}” after “2”?" in repr(attnviz.why(model, batch))


def test_a_tokenizer_reads_a_text_and_names_tokens() -> None:
    loaded = attnviz.models.load("attnviz/translator-en-fr")  # type: ignore[attr-defined]
    asked = attnviz.why(loaded, "the cat sleeps .", Score(1, 0, 3, 0))
    batch = dict(loaded.encode("the cat sleeps .").batch)
    same = attnviz.why(loaded.model, batch, Score(1, 0, 3, 0), tokens=loaded.tokenizer)
    words = [next(panel for panel in viewer.panels if panel.title == "Shares of words") for viewer in (asked, same)]
    assert words[0].key_tokens[:4] == words[1].key_tokens[:4] == ("the", "cat", "sleeps", ".")
    assert total(same) == pytest.approx(total(asked), abs=1e-4)


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
    viewer = attnviz.why(model := make().eval(), batch, of)
    assert question in repr(viewer)
    words = next(panel for panel in viewer.panels if panel.title == "Shares of words")
    if of is not None:
        found = attnviz.attribute(model, batch, of)
        assert total(viewer) == found.total
        assert words.weights.sum() == pytest.approx(found.total - found.constant, abs=1e-4)


def test_links_open_what_they_say(widget: PageWidget, model: Any) -> None:
    found = attnviz.attribute(model, IDS, Logit(3))
    widget.link = "term=1.2.3"
    assert total(widget) == pytest.approx(found.total, abs=1e-6)
    terms, sources = blocks_of(widget, Table)
    largest = sorted(found.largest(10), key=lambda term: term.share * found.total < 0)
    for row, term in zip(terms.rows, largest, strict=True):
        assert (row[2], row[0].link) == (signed(term.share), (("term", str(SumTerm.from_share(term))),))
    for row in sources.rows:
        value, (key, _dot, query) = row[3:]
        [(name, trail)] = value.link
        question, layer, head, position, source = trail.split(".")
        assert (name, question, layer, head, position) == ("trail", "value", "1", "2", "3")
        assert signed(found.opened(1, 2, 3, int(source)).total) == row[2]
        score = signed(found.attribute(Score(1, 2, 3, int(source), over="mean", side="key")).total)
        for way, number in ((value, row[2]), (key, score), (query, score)):
            widget.link = urlencode(way.link)
            assert signed(total(widget)) == number
            [opened] = blocks_of(widget, Listing)
            assert opened.items[0].link == ()


def test_a_cell_of_the_grid_opens_its_largest_term(
    widget: PageWidget, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = content(widget, monkeypatch)
    grid = nodes(shown["nodes"], "figure")[0]
    names = shown["charts"][grid["chart"]]["spec"]["names"]
    found = attnviz.attribute(model, IDS, Logit(3))
    shares = {SumTerm.from_share(term): abs(term.share) for term in found.terms}
    assert len(grid["opens"]) == len(names) == 15  # layers and the input, heads and the MLP
    for link, name in zip(grid["opens"], names, strict=True):
        if link:
            term = parse_term(parse_qs(link)["term"][0])
            assert term is not None
            same = [share for one, share in shares.items() if (one.layer, one.head) == (term.layer, term.head)]
            assert shares[term] == max(same)
        else:
            assert name.startswith("constant") or not name


def test_the_link_is_a_trait(widget: PageWidget) -> None:
    seen: list[str] = []
    widget.observe(lambda change: seen.append(change["new"]), "link")
    whole = total(widget)
    widget.link = "trail=value.1.2.3.0"
    assert seen == ["trail=value.1.2.3.0"]
    assert total(widget) != whole


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("trail=value.7.0.0.0", "There is no layer 7"),
        ("trail=value.1.2.3.9", "There is no position 9"),
        ("trail=import+os", "not a list of at most 12 opened terms"),
        ("term=head+3", "not a term of a sum"),
    ],
)
def test_what_is_not_there_cannot_be_opened(
    widget: PageWidget, monkeypatch: pytest.MonkeyPatch, link: str, message: str
) -> None:
    with pytest.raises(traitlets.TraitError, match=message):
        widget.link = link
    assert widget.link == ""
    assert message in content(widget, monkeypatch, link)["error"]


def test_a_term_that_is_not_in_the_sum_is_said(widget: PageWidget, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "There is no such term in this sum." in html_of(content(widget, monkeypatch, "term=1.2.9"))


def held_states(html: str) -> dict[str, Any]:
    """The states of an HTML page, all of whose charts are there."""
    [text] = re.findall(r'<script type="application/json" data-attnviz-data="[^"]*">(.*?)</script>', html, re.S)
    data = json.loads(text)
    states, charts = (unbundled(data[name]) for name in ("states", "charts"))
    for shown in states.values():
        assert {each["chart"] for each in nodes(shown, "figure")} <= charts.keys()
    return {link: {"nodes": shown} for link, shown in states.items()}


def unbundled(bundles: list[dict[str, Any]]) -> dict[str, Any]:
    decoded = [unpacked(gzip.decompress(b64decode(each["content"])))[0] for each in bundles]
    assert [[*each] for each in decoded] == [each["names"] for each in bundles]
    return {name: value for each in decoded for name, value in each.items()}


def with_own_charts(states: dict[str, Any]) -> int:
    """How many states have charts that those before them do not have."""
    charts = [{each["chart"] for each in nodes(shown["nodes"], "figure")} for shown in states.values()]
    return sum(bool(own - {*chain(*charts[:i])}) for i, own in enumerate(charts))


def test_a_page_has_the_states_around_what_is_shown(widget: PageWidget, monkeypatch: pytest.MonkeyPatch) -> None:
    widget.link = "trail=value.1.2.3.0"
    monkeypatch.setattr("attnviz.notebook.page_viewer.FILE_STATES", 30)
    page = widget.to_html(title="Why")
    assert "</script><b>" not in page
    held = held_states(page)
    assert [*held][:2] == ["trail=value.1.2.3.0", ""]  # what is shown, and the sum before it
    assert with_own_charts(held) == 30 < len(held)
    for link, one in held.items():
        widget.link = link
        if "trail" in link:
            assert f"{escape(signed(total(widget)))}</b></li></ol>" in html_of(one)


def test_a_cell_has_few_states_and_what_is_shown_is_one_of_them(widget: PageWidget) -> None:
    widget.link = "trail=value.1.2.3.0"
    assert [*held_states(widget._html(1))] == ["trail=value.1.2.3.0"]
    assert with_own_charts(held_states(widget._html(1 << 20))) == 12


def test_without_scripts_the_sum_is_a_sentence(widget: PageWidget) -> None:
    fallback = re.search(r'<div data-attnviz="[^"]*" data-wait="\d+">(.*?)</div>', widget._output())
    assert fallback is not None
    assert "Why is the logit of “#3” at “down” what it is?" in fallback[1]
    assert "add up to" in fallback[1]


def test_without_anywidget_there_is_html(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.notebook.page_viewer.find_spec", lambda name: None)
    monkeypatch.setattr("attnviz.notebook.page_viewer.FILE_STATES", 2)
    viewer = attnviz.why(model, IDS)
    assert type(viewer) is PageViewer
    viewer.link = "trail=value.1.2.3.0"
    assert len(blocks_of(viewer, Listing)[0].items) == 2
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
