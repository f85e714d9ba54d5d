"""attnviz picture: what a link shows, in a file."""

from pathlib import Path

import pytest

import attnviz
from attnviz.command.picture import main
from attnviz.page.page_view import ENDINGS

LINK = "/masks?source=Toy&text=a+b+c&mask-a=full&mask-b=causal"


@pytest.fixture(autouse=True)
def few_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with few states, which are soon computed."""
    monkeypatch.setattr("attnviz.notebook.page_viewer.FILE_STATES", 2)


@pytest.mark.parametrize("ending", ["svg", "html", "npz"])
def test_a_link_becomes_a_file(tmp_path: Path, ending: str) -> None:
    main([LINK, "-o", str(tmp_path / f"figure.{ending}")])
    [file] = tmp_path.iterdir()
    if ending == "svg":
        assert file.read_text(encoding="utf-8") == attnviz.view(LINK).to_svg()
    assert file.stat().st_size > 500


def test_an_html_file_is_the_whole_page(tmp_path: Path) -> None:
    main(["/explore?source=Toy&text=a+b&head=Mean+of+heads", "-o", str(tmp_path / "page.html")])
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "data-attnviz-library" in html
    assert 'src="http' not in html
    assert "layer 0, mean of heads" in html


def test_values_that_are_not_taken_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([f"{LINK}&head=Head+99", "-o", str(tmp_path / "figure.svg")])
    assert "attnviz picture: head = “Head 99” is not accepted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("link", "file", "sentence"),
    [
        ("/lessons", "figure.svg", "is not the address of a page"),
        ("/explore?source=Upload", "figure.svg", "Upload vectors"),
        (LINK, "figure.jpg", "has no ending"),
        (LINK, "nowhere/figure.svg", "There is no folder"),
        (LINK, "", "is a folder"),
    ],
)
def test_a_mistake_is_a_sentence(tmp_path: Path, link: str, file: str, sentence: str) -> None:
    with pytest.raises(SystemExit, match=sentence):
        main([link, "-o", str(tmp_path / file)])
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["figure.jpg", "nowhere/figure.svg", "", "figure"])
def test_what_cannot_be_written_is_not_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(attnviz, "view", lambda _link: pytest.fail("computed"))
    with pytest.raises(SystemExit, match="attnviz picture: "):
        main([LINK, "-o", str(tmp_path / name)])


def test_the_endings_are_those_that_a_view_writes() -> None:
    assert {*ENDINGS} == {".html", *attnviz.view(LINK).view.writers}
