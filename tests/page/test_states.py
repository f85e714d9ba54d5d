"""States and links: what is written is read, and what is read from any text is a state."""

from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz.biases import ALiBi
from attnviz.masks import Causal, SlidingWindow, VerticalSlash
from attnviz.models.minilm import minilm
from attnviz.normalizers import NORMALIZERS
from attnviz.page.every_page import EveryPageState
from attnviz.page.head_state import HeadState
from attnviz.page.state import State
from attnviz.page.viewport import Viewport
from attnviz.pages.catalogue import BLOCKS
from attnviz.pages.explore.state import ExploreState
from attnviz.pages.lookup.state import LookupState
from attnviz.pages.masks.state import MasksState
from attnviz.pages.scores.state import ScoresState
from attnviz.pages.steps.state import StepsState
from attnviz.pages.transformer.state import TransformerState
from attnviz.scores import SCORES, Additive, Cosine, General, ScaledDot, Score
from attnviz.sources import Model, Toy
from attnviz.sources.upload import File

TEXTS = ["a b c", "the cat sat", "ein Satz & mehr?"]
MASKS = ["full", "causal", "sliding_window(3)", "causal & (q - k < 4)", "~band(1)"]
LINKS = {
    "source": ["Toy"],
    "text": TEXTS,
    "toy.heads": ["1", "2", "4", "99", "x"],
    "toy.seed": ["0", "7", "nan"],
    "layer": ["layer 0", "encoder 3"],
    "head": ["Head 0", "Head 1", "Kopf 1", "Mean of heads", "Head 9"],
    "mask": ["Full", "Causal", "Sliding window", "— Window —", "?"],
    "mask.size": ["1", "3", "0", "1e9"],
    "mask-a": [*MASKS, "nonsense("],
    "mask-b": MASKS,
    "score": [kind.__name__ for kind in SCORES],
    "normalizer": [kind.__name__ for kind in NORMALIZERS],
    "normalizer.temperature": ["0.5", "2", "inf"],
    "biases": ["", "ALiBi", "Soft cap", "T5"],
    "biases-b": ["ALiBi"],
    "pinned": ["none", "1 · b", "1 · cat"],
    "predict": ["true", "perhaps"],
    "colors": ["0 to 1", "0 bis 1"],
    "look": ["Similarities", "Normalizers", "Cost", "Kosten"],
    "similarities": ["Dot", "Cosine", ""],
    "query-x": ["0.5", "9", "-1.005"],
    "softness": ["hard", "T = 0.3"],
    "similarity": ["General", "Additive", "Dot"],
    "w11": ["-1", "2.5", "2.123456"],
    "seed": ["3"],
    "attention": ["Self", "Cross", "Translator"],
    "sentence": ["a b c", "a"],
    "d-k": ["2", "8"],
    "heads": ["2", "4"],
    "head-shown": ["Head 1", "Head 3"],
    "masked": ["Causal"],
    "query": ["0 · a", "2 · c"],
    "edits": ["Q0.1.2_0.5", "…"],
    "part": ["Predict"],
    "stage": ["softmax"],
    "d": ["4", "5"],
    "maps": ["Wipe", "Überblenden"],
    "tokens": ["512", "1,024", "7"],
    "block": ["64", "1"],
    "budget": ["5%", "0.5"],
    "cache-type": ["fp32", "fp8 oder int8"],
    "empty-row": ["zeros"],
    "keys": ["3", "65", "inf"],
    "idea": ["causal", "Sliding window", "Prefix seen by all", "Neighborhood on a grid"],
    "size": ["0", "3", "5", "65"],
    "queries": ["8", "12", "0"],
    "layers": ["24", "0"],
    "pattern": ["AAB", ""],
    "code-of": ["A", "C"],
    "code-in": ["NumPy"],
    "load-into": ["A"],
    "from": ["Cosine", "T5"],
    "to": ["Dot", "Scaled dot"],
    "table": ["true", "1,0,5,cat;0,1,2,hen", "1,0"],
    "find": ["sat"],
    "part-of-queries": ["0", "2"],
    "quantity": ["Mean weight"],
    "sinks.size": ["2"],
    "cosine.tau": ["0.1234567891"],
    "score.scale": ["", "0.08838834764831845"],
    "mask.vertical-slash.columns": ["0 5 9", "a"],
    "model": ["", "sentence-transformers/all-MiniLM-L6-v2", "/nowhere", "org/none"],
    "model.pair": ["a dog", " "],
    "inspect": ["Many texts", "Patching", "Hidden fact", "Versteckte Tatsache"],
    "special-tokens": ["Hidden"],
    "color-by": ["Entropy", "Entropie", "Mass"],
    "kind": ["Itself", "Next token", "induction head"],
    "against": ["Entropy", "nothing"],
    "leave-out": ["Special tokens"],
    "right-model": ["As on the left", "Wie links", "", "org/none"],
    "right-text": TEXTS,
    "right-layer": ["encoder 5", "layer 2"],
    "right-head": ["Head 2", "Mean of heads"],
    "words": ["100", "1e9"],
    "depth": ["0", "-4"],
    "transformer-model": ["", "sentence-transformers/all-MiniLM-L6-v2", "org/none"],
    "english": ["I sleep .", "the zebra", "", "a" * 5000],
    "word": ["1", "3", "99"],
    "temperature": ["0.0", "0.35", "3", "nan", "-1"],
    "draw": ["7", "1e99"],
    "path-head": ["3", "11", "-1"],
    "open": ["decoder 1", "encoder 0 attention weights", "memory", "model", "<script>"],
    "tab": ["How attention forms", "Three uses", "Drei Verwendungen", "Several heads"],
    "encoder-head": ["0.2", "9.9"],
    "cross-head": ["1.3", "x"],
    "row": ["1 · sleep", "none"],
    "unfolded": ["In symbols", "Mehrere Köpfe", "?"],
    "step": ["0", "2,400", "2.400", "7"],
    "prompt": ["the cat", " "],
    "writer": ["org/none", ""],
    "chat": ["true"],
    "system": ["Be brief."],
    "earlier": ['["Hi","Yes?"]', '["Hi"]', "x"],
    "next-token": ["At random", "Zufällig"],
    "write-temperature": ["0.5", "9"],
    "top-k": ["40", "-1"],
    "top-p": ["0.9", "0"],
    "write-seed": ["7"],
    "write-picture": ["shapes", "x"],
    "write-image": ["a.png"],
    "length": ["2", "3", "0", "513"],
    "choices": ["0.7042-5.260", "5"],
    "branches": ["0.1~0.1-3.4", "~", "x"],
    "why-model": ["sentence-transformers/all-MiniLM-L6-v2", "attnviz/translator-en-fr", "org/none"],
    "written": ["le petit chat", "zebra"],
    "question": ["Where a head looks", "Wohin ein Kopf schaut"],
    "after": ["0 · The", "99 · no"],
    "says": ["Mary", "#182", "", "#99999999"],
    "rather-than": ["John", "the average token", "zzz"],
    "why-layer": ["layer 3", "encoder 1", "decoder 1 cross"],
    "why-head": ["2", "99"],
    "why-from": ["1 · cat", "x"],
    "why-at": ["0 · When"],
    "why-over": ["0 · When", "y"],
    "why-side": ["the query"],
    "trail": ["value.2.1.3.0-key.1.1.2.1", "value.2.1.99.0", "x"],
    "tree": ["true"],
    "term": ["2.1.3", "mlp.1.2", "word.2", "encoder.9", "x"],
    "measure": ["logit", "Wahrscheinlichkeit", "KL of all tokens", "loss of the text", "cosine of the vector"],
    "instead": ["its mean over other texts", "x"],
    "many-texts": ["The cat sat. | Mary | John", "", "a\n" * 60],
    "share-of": ["layer 2, head 1", "encoder 1, MLP", "Encoder 1, MLP", "embeddings", "x"],
    "circuit": ["true", "x"],
    "own-texts": ["The cat sat.", "", "a\n" * 300],
    "at-least": ["0.4", "-1", "x", ""],
    "examples": ["drawn at random by weight", "mit dem größten Gewicht", "x"],
    "mlp": ["layer 3", "encoder 1", "layer 99", "x"],
    "file": ["x"],
    "other-texts": ["The cat sat.", "", "a\n" * 30],
    "hidden-from": ["layer 3", "encoder 1", "all layers"],
    "hidden-from-head": ["2", "99"],
    "effects-head": ["layer 2, head 1", "encoder 1, head 0", "layer 99, head 1", "none"],
    "effects-more": ["Circuits of a head", "Logit-Linse"],
    "compared": ["true"],
    "heads-across": ["weight", "Gewicht", "share"],
    "heads-up": ["effect", "weight"],
    "without-first": ["false"],
    "reads": ["cat", "zebra", ""],
    "tokens-as": ["as embeddings", "x"],
    "composition": ["the query", "the value"],
    "corrupted": ["a b d", "", "x" * 5000],
    "patched": ["the output of an MLP", "the weights of a head"],
    "corrections": ["1-2", "x"],
    "aligned-token": ["1", "-1", "x"],
    "paths": ["the key", "nothing"],
    "lens-color": ["entropy", "Entropie"],
    "lens-cell": ["2.1", "99.99", "x"],
    "color": ["true"],
    "gradients": ["true"],
    "query-y": ["-0.25", "nan"],
    "w12": ["0.5"],
    "w21": ["-0.5"],
    "w22": ["2", "x"],
    "second": ["d e f", ""],
    "translator-layer": ["2", "9"],
    "translator-head": ["1", "9"],
    "translator-use": ["Decoder", "x"],
    "mosaic": ["All layers", "x"],
    "part-of-keys": ["0", "2"],
    "scale": ["Square root", "Logarithm"],
    "biases-a": ["ALiBi", ""],
    "laid-over": ["true"],
    "model-layers": ["0", "1"],
    "paint-a": ["true"],
    "paint-b": ["true"],
    "normalizers": ["Softmax", "Sparsemax", ""],
    "right-picture": ["a.png"],
    "drawing": ["shapes", "Formen", "?"],
    "image": ["a.png"],
    "region": ["1-2.0-3,4.4", "1", "", "0-99999.1"],
    "hidden-as": ["masked", "?"],
    "region-from": ["0 · [CLS]", "x"],
    "template-tokens": ["true"],
    "decoder-head": ["0.1", "9.9"],
}


def test_every_field_of_a_page_is_in_the_links_of_this_test() -> None:
    parameters = {field.parameter for page in BLOCKS.values() for field in page.state.fields}
    assert parameters <= {name.split(".")[0] for name in LINKS}


@st.composite
def links(draw: st.DrawFn, page: str) -> list[tuple[str, str]]:
    """Parameters of a page with values that its fields have, and with others."""
    own = {field.parameter for field in BLOCKS[page].state.fields}
    names = [name for name in LINKS if name.split(".")[0] in own]
    named = [(name, draw(st.sampled_from(LINKS[name]))) for name in draw(st.lists(st.sampled_from(names), max_size=12))]
    for model in sorted(own & {"why-model", "writer"} - {*dict(named)}):
        named.append((model, "attnviz/translator-en-fr"))  # of those that say a next token, the smallest
    return [
        ("source", "Toy"),
        *named,
        *draw(st.lists(st.tuples(st.sampled_from(sorted(LINKS)), st.text(max_size=9)), max_size=2)),
    ]


@pytest.mark.parametrize("page", BLOCKS)
@given(data=st.data())
@settings(max_examples=30)
def test_what_a_state_writes_is_read_as_the_same_state(page: str, data: st.DataObject) -> None:
    kind, link = BLOCKS[page].state, data.draw(links(page))
    state = kind.read(link)
    if not state.problem:
        written = state.link()
        again = kind.read(written)
        assert again == state
        assert not again.refused
        assert again.link() == written


@pytest.mark.parametrize("kind", [page.state for page in BLOCKS.values()], ids=lambda kind: kind.__name__)
def test_a_state_without_a_link_is_what_the_page_opens_with(kind: type[State]) -> None:
    assert kind.read(()) == kind()
    assert kind().link() == ()


@pytest.mark.parametrize("kind", [page.state for page in BLOCKS.values()], ids=lambda kind: kind.__name__)
def test_every_link_parameter_belongs_to_one_field(kind: type[State]) -> None:
    parameters = [field.parameter for field in kind.fields]
    assert len({*parameters}) == len(parameters)
    assert all(field.label for field in kind.fields)


def test_fields_are_resolved_in_order_and_refusals_are_sentences() -> None:
    link = "source=Toy&text=a+b&head=Head+9&mask=Causal&biases=ALiBi&biases=Bias&pinned=7+·+z"
    state = ExploreState.read(parse_qsl(link))
    assert (state.source, state.head, state.mask) == (Toy("a b"), 0, Causal())
    assert (state.biases, state.pinned) == ((ALiBi(),), 1)
    refused = [sentence.split(" is not accepted")[0] for sentence in state.refused]
    assert refused == ["head = “Head 9”", "biases = “ALiBi, Bias”", "pinned = “7 · z”"]
    assert "Head 0" in state.refused[0]


@pytest.mark.parametrize("name", ["Pretrained", "Vortrainiert", "Model", "Modell"])
@pytest.mark.parametrize("is_installed", [True, False])
def test_a_link_to_a_model_has_its_earlier_names_too(name: str, is_installed: bool, monkeypatch) -> None:
    monkeypatch.setattr(minilm, "is_installed", lambda: is_installed)
    for kind in (ExploreState, MasksState, ScoresState):
        state = kind.read([("source", name), ("text", "a b")])
        assert (state.source, state.refused) == (Model("a b"), ())
        assert ("source", "Model") not in state.link() if is_installed else ("source", "Model") in state.link()


def test_a_link_has_the_second_text_of_a_model_and_no_picture() -> None:
    link = (("text", "a cat"), ("model.pair", "a dog"))
    assert ExploreState.read(link).source == Model("a cat", pair="a dog")
    assert ExploreState.read(link).link() == link
    seen = Model("a cat", image=File("a.png", b""))
    with pytest.raises(ValueError, match="The uploaded file is not in the link"):
        [*HeadState.source.write(None, seen)]
    state = ExploreState(source=seen)
    assert state.opened(state.link_with(head=2)).source is seen


def test_a_state_is_made_in_python_too() -> None:
    state = ExploreState(source=Toy("a b c"), mask=SlidingWindow(2), head=1)
    assert state.link() == (
        ("source", "Toy"),
        ("text", "a b c"),
        ("head", "Head 1"),
        ("mask", "Sliding window"),
        ("mask.size", "2"),
    )
    with pytest.raises(TypeError, match="no size"):
        ExploreState(size=3)
    with pytest.raises(ValueError, match="no text yet"):
        ExploreState(source=Toy(""))
    with pytest.raises(AttributeError, match="cannot be changed"):
        state.head = 2
    assert hash(state) == hash(ExploreState.read(state.link()))


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (ExploreState, "source layer head mask score"),
        (ScoresState, "similarities"),
        (MasksState, "mask_a biases_b"),
        (LookupState, "table softness"),
        (StepsState, "attention sentence edits"),
        (TransformerState, "model text written tab word temperature draw open head cross_head training_step"),
    ],
)
def test_states_declare_their_fields(kind: type[State], names: str) -> None:
    assert {*names.split()} <= {field.name for field in kind.fields}


def test_the_state_of_every_page_is_in_the_link() -> None:
    link = (
        ("lang", "de"),
        ("present", "1"),
        ("lesson", "06-one-head"),
        ("lesson-step", "2"),
        ("right", "1.2"),
        ("write", "new"),
    )
    state = EveryPageState.read(link)
    assert state.presented
    assert state.link() == link
    assert EveryPageState.read(state.link()) == state


@pytest.mark.parametrize("kind", [ExploreState, MasksState])
def test_a_part_of_a_long_map_is_in_the_link(kind: type[State], monkeypatch: pytest.MonkeyPatch) -> None:
    link = [
        ("source", "Toy"),
        ("text", "a b c d"),
        ("part-of-queries", "3"),
        ("part-of-queries", "1"),
        ("find", "c"),
        ("scale", "Square root"),
    ]
    short = kind.read(link)
    assert (short.viewport, short.find) == (Viewport(), "")
    monkeypatch.setattr("attnviz.page.viewport.MOST_CELLS", 4)
    state = kind.read(link)
    assert not state.refused
    assert state.viewport == Viewport((1, 4), (0, None))
    assert kind.read(state.link()) == state
    assert ("part-of-queries", "1") in state.link()


@pytest.mark.parametrize(
    "texts", [["1"], ["1", "2", "3"], ["0", "4"], ["-1", "2"], ["0", "x"], ["1.0", "2"], ["", ""], ["٣", "1"]]
)
def test_other_parts_are_refused(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.page.viewport.MOST_CELLS", 4)
    link = [("source", "Toy"), ("text", "a b c d"), *(("part-of-keys", text) for text in texts)]
    state = MasksState.read(link)
    assert state.part_of_keys == (0, 3)
    assert "two positions from 0 to 3" in state.refused[0]


@pytest.mark.parametrize(
    ("field", "value"),
    [("w11", 2.123456), ("query_x", -1.25), ("seed", 9999), ("w22", -0.000001), ("query_y", 1.0)],
)
def test_a_number_is_in_the_link_with_all_its_digits(field: str, value: float) -> None:
    similarity = {"w11": General, "w22": General, "seed": Additive}.get(field, ScaledDot)
    state = LookupState(similarity=similarity, **{field: value})
    assert getattr(LookupState.read(state.link()), field) == value


@pytest.mark.parametrize(
    "score", [ScaledDot(0.08838834764831845), ScaledDot(None), ScaledDot(-7.0), Cosine(0.1234567891), Additive(seed=3)]
)
def test_settings_are_in_the_link_with_all_their_digits(score: Score) -> None:
    state = ExploreState(source=Toy("a b"), score=score)
    assert ExploreState.read(state.link()) == state


def test_settings_that_a_class_does_not_take_are_refused_alone() -> None:
    link = [
        ("source", "Toy"),
        ("text", "a b"),
        ("mask", "Vertical slash"),
        ("mask.vertical-slash.columns", "1 x"),
        ("mask.vertical-slash.slashes", "0 2"),
    ]
    state = ExploreState.read(link)
    assert state.mask == VerticalSlash(slashes=(0, 2))
    assert len(state.refused) == 1


def test_similarities_are_compared_if_there_are_two() -> None:
    assert ScoresState.read([("source", "Toy"), ("to", "Cosine")]).difference_to == "Cosine"
    for names in ([""], ["Dot"]):
        state = ScoresState.read([("source", "Toy"), ("from", "Cosine"), *(("similarities", name) for name in names)])
        assert state.difference_to is None
        assert ScoresState.read(state.link()) == state


def test_a_source_without_layers_or_package_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Toy, "layers", lambda _self: [])
    assert "no layers yet" in ExploreState.read([("source", "Toy"), ("text", "nothing")]).problem

    def fail(_self: Toy) -> None:
        raise ImportError("A trained model needs a package.")

    monkeypatch.setattr(Toy, "layers", fail)
    assert ExploreState.read([("source", "Toy"), ("text", "none")]).problem == "A trained model needs a package."
