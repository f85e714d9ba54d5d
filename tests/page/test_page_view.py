"""What a link shows, in Python and as a file."""

import base64
import csv
import re
import zlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import attnviz
from attnviz.lessons.lesson_tables import parse_address
from attnviz.masks import Causal, SlidingWindow
from attnviz.mechanism import Mechanism
from attnviz.pages.catalogue import read_state, view_of
from attnviz.sources import Toy
from attnviz.sources.files import read_file

MASKS = "/masks?source=Toy&text=a+b+c+d&mask-a=causal&mask-b=sliding_window(2)&head=Head+1"
NORMALIZERS = "https://example.org/attn/scores?source=Toy&text=a+b+c&look=Normalizers&present=1"


def weights(mask: object) -> np.ndarray:
    inputs = Toy("a b c d").layers()[0].inputs
    attention = Mechanism(mask=mask)(inputs, heads=[1])
    return np.where(attention.allowed[0].numpy(), attention.weights[0].numpy(), np.nan)


def test_a_link_is_a_view() -> None:
    view = view_of("masks", read_state(*parse_address(MASKS)))
    assert [panel.title for panel in view.panels] == ["A: causal", "B: sliding_window(2)", "B − A"]
    before, after = weights(Causal()), weights(SlidingWindow(2))
    change = np.where(np.isnan(before) & np.isnan(after), np.nan, np.nan_to_num(after) - np.nan_to_num(before))
    for panel, expected in zip(view.panels, (before, after, change), strict=True):
        np.testing.assert_allclose(panel.weights, expected, atol=1e-6)
    assert view.largest == pytest.approx(np.nanmax([before, after]))
    assert view.end(view.panels[2]) == pytest.approx(np.nanmax(np.abs(change)))
    assert view.quantities["cells removed"] == 3


def test_what_is_not_taken_is_a_warning_and_what_cannot_be_shown_an_error() -> None:
    with pytest.warns(UserWarning, match=r"head = “Head 99” is not accepted: .*Head 0"):
        assert attnviz.view("explore?source=Toy&head=Head+99").panels[0].title == "layer 0, head 0"
    with pytest.raises(ValueError, match="There is no text yet"):
        attnviz.view("explore?source=Toy&text=")
    with pytest.raises(ValueError, match="“start” is not a page with a view"):
        read_state("start", ())
    with pytest.raises(ValueError, match="characters"):
        attnviz.view("explore?text=" + "a" * 10_000)


def test_colors_end_as_the_link_says() -> None:
    largest, one = (attnviz.view(f"explore?source=Toy&text=a+b+c{colors}") for colors in ("", "&colors=0+to+1"))
    assert largest.view.largest == pytest.approx(largest.panels[0].weights.max())
    assert one.view.largest == 1.0


def test_svg_has_all_panels_within_it() -> None:
    for link, count in ((MASKS, 2), (NORMALIZERS, 12)):
        view = attnviz.view(link)
        root = ElementTree.fromstring(view.to_svg())
        panels = root.findall("{http://www.w3.org/2000/svg}svg")
        assert len(panels) == len(view.panels) >= count
        boxes = [tuple(float(panel.get(name)) for name in ("x", "y", "width", "height")) for panel in panels]
        assert max(x + width for x, _, width, _ in boxes) <= float(root.get("width"))
        assert max(y + height for _, y, _, height in boxes) <= float(root.get("height"))
        assert not any(overlap(a, b) for number, a in enumerate(boxes) for b in boxes[:number])


def overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return all(a[axis] < b[axis] + b[axis + 2] and b[axis] < a[axis] + a[axis + 2] for axis in (0, 1))


def test_files_have_the_numbers(tmp_path: Path) -> None:
    view = attnviz.view(MASKS)
    view.save(tmp_path / "both.npz")
    contents = read_file("both.npz", (tmp_path / "both.npz").read_bytes())
    np.testing.assert_allclose(
        contents.arrays["weights"], np.nan_to_num([weights(Causal()), weights(SlidingWindow(2))]), atol=1e-6
    )
    with pytest.raises(ValueError, match="has one map, and this view has 2"):
        view.save(tmp_path / "both.csv")
    with pytest.raises(ValueError, match=r"“both\.doc” has no ending"):
        view.save(tmp_path / "both.doc")
    attnviz.view("explore?source=Toy&text=a+b+c").save(tmp_path / "one.csv")
    with (tmp_path / "one.csv").open(encoding="utf-8-sig", newline="") as file:
        assert [row[0] for row in csv.reader(file)] == ["", "a", "b", "c"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["both.npz", "one.csv"]


def test_a_pdf_has_its_text_as_text_and_refuses_letters_without_a_font(tmp_path: Path) -> None:
    attnviz.view("explore?source=Toy&text=cat+Größe").save(tmp_path / "map.pdf")
    content = (tmp_path / "map.pdf").read_bytes()
    streams = re.findall(rb"stream\r?\n(.*?)~>\s*endstream", content, re.DOTALL)
    page = b"".join(zlib.decompress(base64.a85decode(stream)) for stream in streams).decode("latin-1")
    assert re.findall(r"\((cat|Gr.*?e)\) Tj", page) == ["cat", r"Gr\366\337e"] * 2
    with pytest.raises(ValueError, match="no “к”"):
        attnviz.view("explore?source=Toy&text=кот").save(tmp_path / "other.pdf")
    assert not (tmp_path / "other.pdf").exists()


def test_long_maps_are_downsampled_and_too_large_for_svg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.page.viewport.MOST_CELLS", 200 * 200 - 1)
    monkeypatch.setattr("attnviz.page.selected_maps.CELLS", 170)
    view = attnviz.view("explore?source=Toy&toy.heads=1&toy.width=4&text=" + "+".join("ab" * 100))
    assert view.panels[0].weights.shape == (170, 170)
    with pytest.raises(ValueError, match="As SVG, a map has at most 160"):
        view.to_svg()
