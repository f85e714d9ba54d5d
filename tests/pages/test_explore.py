"""The Explore page without a browser: every control, and every bad input that a person or a link can bring."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from attnviz.base.text import EXAMPLE
from attnviz.biases import BIASES
from attnviz.masks import MASKS
from attnviz.models.minilm import minilm
from attnviz.normalizers import NORMALIZERS
from attnviz.scores import SCORES
from attnviz.sources import SOURCES
from attnviz.sources.trace_folder import TraceFolder
from attnviz.sources.upload import Upload
from attnviz.ui import cache
from attnviz.ui.downloads import SAMPLES
from attnviz.ui.server.upload_memory import UploadMemory
from tests.support.app import contents, errors, healthy, open_page
from tests.support.array_files import npy, npz

WIDGETS = ("selectbox", "number_input", "text_input", "multiselect", "toggle")


page = partial(open_page, "explore")
with_charts = partial(healthy, charts=1)


def widget(app: AppTest, label: str):
    [found] = [one for kind in WIDGETS for one in getattr(app, kind) if one.label == label]
    return found


def uploaded(name: str, content: bytes) -> AppTest:
    app = page(source="Upload")
    app.file_uploader[0].upload(name, content)
    return app.run()


def test_it_opens_on_the_example_with_all_its_labels() -> None:
    app = with_charts(page())
    for label in ("Source", "Layer", "Head", "Score", "Mask", "Normalizer", "Text"):
        assert widget(app, label)
    assert widget(app, "Text").value == EXAMPLE
    assert len(widget(app, "Layer").options) == 6
    assert widget(app, "Head").options[:12] == [f"Head {i}" for i in range(12)]
    assert widget(app, "Head").options[12:] == ["Mean of heads", "Maximum of heads", "Rollout up to this layer"]
    assert "it gives 0.68 of its attention to animal." in " ".join(one.body for one in app.get("html"))


@pytest.mark.parametrize(
    ("label", "menu"),
    [("Source", SOURCES), ("Score", SCORES), ("Mask", MASKS), ("Normalizer", NORMALIZERS), ("Biases", BIASES)],
)
def test_every_choice_of_a_menu_draws_its_picture_and_its_help(label: str, menu: tuple[type, ...]) -> None:
    app = page(source="Toy")
    names = [name for name in widget(app, label).options if not name.startswith("— ")]
    assert len(names) == len(menu)
    for name, kind in zip(names, menu, strict=True):
        chosen = widget(app, label)
        app = (chosen.set_value([name]) if label == "Biases" else chosen.select(name)).run()
        has_example = kind not in (Upload, TraceFolder)  # these ask for a file, and show no other source's picture
        healthy(app, charts=has_example)
        assert bool(app.info) != has_example
        assert not app.error
        if label != "Biases":
            assert (kind.__doc__ or "").split()[0] in widget(app, label).help


@pytest.mark.parametrize(
    ("head", "special"),
    [("Head 3", "Hidden, rows rescaled"), ("Mean of heads", "Hidden"), ("Maximum of heads", "Shown")],
)
def test_heads_and_special_tokens(head: str, special: str) -> None:
    app = with_charts(page(head=head, **{"special-tokens": special}))
    assert widget(app, "Head").value == head
    text = contents(app)
    assert ("[CLS], [SEP] are hidden" in text) == (special != "Shown")
    assert ("rescaled" in text) == (special == "Hidden, rows rescaled")


def test_a_masks_own_parameters_appear_under_it() -> None:
    app = page(mask="Sliding window")
    assert widget(app, "Size").value == 4
    assert widget(app, "Size counts").options == ["keys seen", "steps back"]
    assert not [one for one in app.number_input if one.label == "Real keys"]


def test_a_mask_that_leaves_nothing_to_look_at_is_said() -> None:
    app = with_charts(page(mask="Padding", **{"mask.keys": "0", "pinned": "none"}))
    assert "16 of 16 queries may look at no key shown" in contents(app)


def test_no_text() -> None:
    app = page()
    with_charts(widget(app, "Text").set_value("\t \n").run())
    assert "There is no text yet" in errors(app)
    assert "The figure below is the last one" in errors(app)


@pytest.mark.parametrize(
    "text",
    [
        "🎉 👩‍🔬 🇫🇷",
        "שלום עולם مرحبا",
        "e\u0301 n\u0303 \u0301",
        "a\x00b \x07 \x1b[31m c\x7f",
        "<s> </s> <unk> [MASK]",
        "<b>bold</b>",
        "<script>alert(1)</script>",
        "$x$ $$y$$ \\(z\\)",
        "a | b || c",
        "**bold** _x_ `y` [z](javascript:alert(1)) :red[x]",
        "one",
        "x" * 3000,
    ],
)
def test_strange_text_is_only_text(text: str) -> None:
    for source in ("Model", "Toy"):
        assert not with_charts(page(source=source, text=text)).error


@pytest.mark.parametrize("file", SAMPLES, ids=lambda file: file.name)
def test_every_sample_is_shown(file: Path) -> None:
    app = with_charts(uploaded(file.name, file.read_bytes()))
    assert not app.error
    assert widget(app, "Layer").options[0] == "layer 0"


def test_finished_weights_put_the_controls_away_and_say_why() -> None:
    app = with_charts(uploaded("w.npz", npz(weights=np.full((2, 3, 3), 1 / 3))))
    labels = [one.label for kind in WIDGETS for one in getattr(app, kind)]
    assert not {"Score", "Mask", "Normalizer", "Biases", "Number of heads"} & set(labels)
    assert {"Layer", "Head"} <= set(labels)
    assert "only weights" in contents(app)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("ragged.csv", b"1,2,3\n4,5\n", "Row 2 has 2 numbers, but row 1 has 3"),
        ("cut.npz", npz(query=np.zeros((2, 2)))[:40], "damaged"),
        ("half.npz", npz(query=np.zeros((2, 2))), "Give query and key"),
    ],
)
def test_a_bad_upload_is_said_and_the_last_picture_stays(name: str, content: bytes, words: str) -> None:
    app = page(source="Upload")
    app.file_uploader[0].upload("good.csv", b"a,1,2\nb,3,4\n")
    with_charts(app.run())
    assert not app.error
    app.file_uploader[0].upload(name, content)
    with_charts(app.run())
    assert words in errors(app)
    assert widget(app, "Layer").options == ["layer 0"]
    assert "a" in " ".join(widget(app, "Pinned query").options)


def test_uploads_of_all_visitors_together_are_bounded(monkeypatch) -> None:
    monkeypatch.setattr(cache, "_uploads", UploadMemory(lambda: 100_000))
    vectors = npy(np.ones((64, 128), "f4"))
    one = with_charts(uploaded("one.npy", vectors))
    assert not one.error
    assert "They use 64" in errors(healthy(uploaded("other.npy", vectors)))
    with_charts(one.run())
    assert not one.error
    [sample] = [file for file in SAMPLES if file.suffix == ".parquet"]
    assert "this one needs 224" in errors(healthy(uploaded(sample.name, sample.read_bytes())))


def test_queries_and_keys_of_different_width() -> None:
    app = healthy(uploaded("q.npz", npz(query=np.ones((3, 4)), key=np.ones((5, 6)), value=np.ones((5, 2)))))
    assert "queries have 4, keys 6" in errors(app)
    assert "General or Additive" in errors(app)
    with_charts(widget(app, "Score").select("General").run())
    assert not app.error


PARENTS = {"source": "Toy", "mask": "Sliding window", "score": "Additive", "biases": "Soft cap"}


@pytest.mark.parametrize("junk", ["", "NaN", "<script>alert(1)</script>"])
def test_junk_in_every_parameter_of_the_link(junk: str) -> None:
    known = page(**PARENTS)
    names = {one.key for kind in WIDGETS for one in getattr(known, kind)} | {"file", "nonsense"}
    assert {"mask.size", "score.hidden", "soft-cap.cap", "toy.width"} <= names
    with_charts(page(**dict.fromkeys(names, junk)))
    with_charts(page(**{name: PARENTS.get(name, junk) for name in names}))


def test_junk_in_the_link_opens_the_example() -> None:
    junk = {"head": "Head 99", "layer": "x", "mask": "<script>", "mask.size": "-4", "pinned": "🎉", "mosaic": "1"}
    app = with_charts(page(**junk, **{"normalizer.temperature": "NaN"}))
    assert "it gives 0.68 of its attention to animal." in contents(app)


def test_the_help_of_a_link_is_that_of_its_choices() -> None:
    app = page(mask="Causal", score="General", source="Toy")
    assert widget(app, "Mask").help.startswith("Each query sees its own position")
    assert widget(app, "Score").help.startswith("Query times a matrix")
    assert widget(app, "Source").help.startswith("Vectors made from the words")


def test_a_link_that_cannot_be_honored_shows_the_example_and_says_so() -> None:
    app = with_charts(page(source="Toy", **{"toy.heads": "5"}))
    assert "The figure below is the example." in errors(app)


@pytest.mark.parametrize("name", ["explore", "masks", "scores"])
def test_under_a_source_no_other_source_is_shown(name: str) -> None:
    app = healthy(open_page(name), charts=1)
    app = app.selectbox(key="source").select("Upload").run()
    assert not app.exception
    assert not app.get("bidi_component"), "the picture of another source"
    assert "The figure below" not in contents(app)
    app.file_uploader[0].upload("good.csv", b"a,1,2\nb,3,4\n")
    app = healthy(app.run(), charts=1)
    app.file_uploader[0].upload("bad.csv", b"a,1,2\nb,3\n")
    app = healthy(app.run(), charts=1)
    assert "The figure below is the last one that could be made." in errors(app)
    assert widget(app, "Layer").options == ["layer 0"]
    app = app.selectbox(key="source").select("Toy").run()
    app = healthy(app.number_input(key="toy.heads").set_value(5).run(), charts=1)
    assert "The figure below is the last one that could be made." in errors(app)
    app = app.selectbox(key="source").select("Model").run()
    app = healthy(widget(app, "Text").set_value("").run(), charts=1)
    assert "The figure below is the" in errors(app)
    assert widget(app, "Layer").options[0] == "encoder 0"


def test_one_refusal_is_said_once() -> None:
    """A file whose picture is refused must not be what the next file's refusal falls back to."""
    app = uploaded("q.npz", npz(query=np.ones((3, 4)), key=np.ones((5, 6)), value=np.ones((5, 2))))
    assert len(app.error) == 1
    app.file_uploader[0].upload("text.csv", b"1,2\n3,abc\n")
    healthy(app.run())
    assert len(app.error) == 1
    assert "abc" in errors(app)


def test_what_would_take_too_long_is_refused() -> None:
    array = np.zeros((64, 64, 512, 1), dtype="f2")
    app = with_charts(uploaded("large.npz", npz(vectors=array)))
    assert not app.error
    with_charts(widget(app, "Mosaic").select("All layers").run())
    assert "To compute all these heads would take" in errors(app)


def test_a_text_without_end_is_refused_before_it_is_cut_into_tokens() -> None:
    app = page()
    with_charts(widget(app, "Text").set_value("word " * 100_000).run())
    assert "500,000 characters" in errors(app)


def test_a_word_without_end_is_shortened_where_it_is_shown() -> None:
    app = page(source="Toy")
    with_charts(widget(app, "Text").set_value("x" * 50_000 + " b").run())
    assert max(len(one.body) for one in app.get("html")) < 20_000


def test_the_link_brings_every_setting_back() -> None:
    settings = {  # of each parameter: its text in the link, the label of its widget, and the value
        "source": ("Toy", "Source", "Toy"),
        "text": ("a b c d", "Text", "a b c d"),
        "toy.width": ("32", "Embedding width", 32),
        "toy.heads": ("2", "Number of heads", 2),
        "toy.seed": ("5", "Seed", 5),
        "head": ("Head 1", "Head", "Head 1"),
        "score": ("Cosine", "Score", "Cosine"),
        "score.tau": ("0.25", "τ", 0.25),
        "mask": ("Band", "Mask", "Band"),
        "mask.width": ("1", "Width", 1),
        "normalizer": ("Softmax", "Normalizer", "Softmax"),
        "normalizer.temperature": ("0.5", "Temperature", 0.5),
        "biases": ("Soft cap", "Biases", ["Soft cap"]),
        "soft-cap.cap": ("2", "Cap", 2.0),
        "pinned": ("2 · c", "Pinned query", "2 · c"),
        "colors": ("0 to 1", "Colors", "0 to 1"),
    }
    app = with_charts(page(table="true", **{name: text for name, (text, _label, _value) in settings.items()}))
    for _text, label, value in settings.values():
        assert widget(app, label).value == value, label
    assert "<th>query</th>" in contents(app).replace(" scope='col'", "")


@pytest.mark.parametrize(
    ("link", "used"),
    [
        ({}, False),
        ({"mask": "Causal"}, False),
        ({"score": "Cosine"}, True),
        ({"colors": "0 to 1"}, True),
    ],
)
def test_controls_for_experts_are_folded_until_one_is_used(link: dict[str, str], used: bool) -> None:
    [more] = [one for one in healthy(open_page(**link)).sidebar.expander if one.label == "More"]
    assert more.proto.expanded is used
    assert {"score", "normalizer", "colors"} <= {box.key for box in more.selectbox}


def test_a_text_of_one_page_is_not_captured_again_on_another() -> None:
    passes: list[int] = []
    hook = minilm().model.base_model.register_forward_pre_hook(lambda module, given: passes.append(1))
    try:
        # Path needs more than is captured, and the model reads a text once more under each of two masks.
        for name, link in (("explore", {}), ("masks", {"look": "For engineers", "part": "Empty rows"}), ("scores", {})):
            healthy(open_page(name, text="a text that nobody has read", **link))
    finally:
        hook.remove()
    assert len(passes) == 1


@pytest.mark.parametrize("page", ["explore", "scores", "masks"])
def test_toy_vectors_are_said_to_be_random(page: str) -> None:
    said = "drawn at random, not learned"
    assert said in contents(open_page(page, source="Toy", text="a b c"))
    assert said not in contents(open_page(page, text="a b c"))


def test_a_class_is_asked_about_the_query_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    published: list[str] = []
    monkeypatch.setattr("attnviz.ui.blocks.quantities.publish", lambda _compute, query: published.append(query))
    with_charts(page(source="Toy", text="a b c", pinned="1 · b"))
    assert published == ["b"]
