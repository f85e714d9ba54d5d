"""GGUF files on Explore, without a browser: named by their path, whole and broken."""

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from attnviz import view
from attnviz.models import load
from attnviz.page.blocks import Caption
from attnviz.pages.catalogue import BLOCKS, page_blocks
from tests.support.app import contents, linked, ok, open_page
from tests.support.gguf_files import config_of, write

TEXT = "bag of cats"

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A GGUF file that is not broken, and a cache folder of the test's own."""
    monkeypatch.setenv("ATTNVIZ_CACHE", str(tmp_path / "cache"))
    (tmp_path / "models").mkdir()
    return write(tmp_path / "models" / "llama.gguf", "llama", config_of("llama"))


def facts(app: AppTest) -> str:
    return next(one.value for one in app.caption if "parameters" in one.value).replace("\\", "")


def test_a_file_opens_by_its_path_or_by_that_of_its_folder(path: Path) -> None:
    for place in (path, path.parent):
        app = ok(open_page("explore", model=place, text=TEXT))
        assert "(LlamaForCausalLM): 2 attention layers of 4 heads" in facts(app)
        assert linked(app, "model") == [str(place)]
        assert len(app.selectbox(key="pinned").options) == len(load(path).encode(TEXT).source.tokens) + 1


def test_the_bits_of_quantized_weights_are_said(path: Path) -> None:
    assert not [one for one in ok(open_page("explore", model=path, text=TEXT)).caption if "bit" in one.value]
    path.unlink()
    write(path, "llama", config_of("llama"), quantization="Q4_1")
    app = ok(open_page("explore", model=path, text=TEXT))
    assert "llama (4-bit, from a GGUF file)" in contents(app)
    assert "The weights of llama are 4-bit (Q4_1), from a GGUF file: its numbers are not" in contents(app)
    german = ok(open_page("explore", model=path, text=TEXT, lang="de"))
    assert "llama (4 Bit, aus einer GGUF-Datei)" in contents(german)


def test_the_bits_are_said_on_every_page_that_names_the_model(path: Path) -> None:
    write(path, "llama", config_of("llama"), quantization="Q8_0")
    for page in ("explore", "write", "effects", "why", "transformer"):
        parameter = "model" if page == "explore" else BLOCKS[page].state.model.parameter
        assert "llama (8-bit, from a GGUF file)" in contents(open_page(page, **{parameter: path})), page


def test_the_bits_are_said_below_saved_figures(path: Path) -> None:
    write(path, "llama", config_of("llama"), quantization="Q8_0")
    said = "llama (8-bit, from a GGUF file)"
    assert said in view(f"/explore?model={path}&text=bag").to_svg()
    blocks = page_blocks("explore", (("model", str(path)), ("text", "bag")))  # of notebooks and HTML files
    assert said in [block.text for block in blocks if isinstance(block, Caption)]


@pytest.mark.parametrize(
    ("start", "words"), [(b"GGUF\3", "ends in the middle"), (b"PK\3\4", "does not begin with GGUF")]
)
def test_a_broken_file_gives_a_sentence(path: Path, start: bytes, words: str) -> None:
    path.write_bytes(start)
    app = open_page("explore", model=path, text=TEXT)
    assert not app.exception
    [error] = app.error
    assert words in error.value


def test_a_file_that_was_replaced_is_read_again(path: Path) -> None:
    app = ok(open_page("explore", model=path, text=TEXT))
    path.unlink()
    write(path, "llama", config_of("llama", num_attention_heads=2))
    assert "2 attention layers of 2 heads" in facts(ok(app.run()))
