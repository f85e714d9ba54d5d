"""Colors that can be read as numbers."""

import colorsys
import re

import numpy as np
import plotly.graph_objects as go
import pytest

from attnviz.base.app_files import ASSETS, PACKAGE
from attnviz.figures.themes import (
    ACCENT,
    CSS_PROPERTIES,
    FIRST_CODE,
    GAP_CODE,
    LAST_CODE,
    MASKED,
    MASKED_CODE,
    PAPER,
    TEXT,
    THEMES,
    WEIGHTS,
    light_figure,
    themed,
)

# From linear RGB to the cone responses of Oklab, and from there to its axes (Ottosson 2020).
CONES = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
OKLAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


def linear(color: str) -> np.ndarray:
    values = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lightness(color: str) -> float:
    return float((np.array(OKLAB) @ np.cbrt(np.array(CONES) @ linear(color)))[0])


def contrast(one: str, other: str) -> float:
    """WCAG's ratio of relative luminance."""
    light, dark = sorted((float(linear(color) @ [0.2126, 0.7152, 0.0722]) for color in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def is_orange(color: str) -> bool:
    hue, saturation, value = colorsys.rgb_to_hsv(*(int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)))
    return 10 <= 360 * hue <= 36 and saturation > 0.65 and value > 0.8


def test_the_accent_is_written_in_one_place() -> None:
    """The palettes of points and of weights apart; files of the icon cannot take it from elsewhere."""
    files = {*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.css"), *PACKAGE.rglob("*.js")} - {PACKAGE / "figures/themes.py"}
    palettes = {PACKAGE / "figures/scatter.py"}
    oranges = {
        (file.relative_to(PACKAGE).as_posix(), color)
        for file in files - palettes
        for color in re.findall(r"#[0-9a-fA-F]{6}\b", file.read_text(encoding="utf-8"))
        if is_orange(color)
    }
    assert oranges == set()
    for name in ("icon.svg", "logo.svg"):
        assert {color for color in re.findall(r"#[0-9a-f]{6}", (ASSETS / name).read_text()) if is_orange(color)} == {
            ACCENT
        }
    assert is_orange(ACCENT)
    assert f"--attnviz-accent: {ACCENT};" in CSS_PROPERTIES


@pytest.mark.parametrize("theme", WEIGHTS)
def test_the_accent_is_seen_on_the_paper_and_on_what_a_mask_hides(theme: str) -> None:
    assert contrast(ACCENT, PAPER[theme]) > 3
    assert contrast(ACCENT, WEIGHTS[theme][-1]) > 3


@pytest.mark.parametrize("theme", WEIGHTS)
def test_weights_get_lighter_or_darker_in_equal_steps(theme: str) -> None:
    steps = np.diff([lightness(color) for color in WEIGHTS[theme]])
    assert np.all(np.sign(steps) == np.sign(steps[0]))
    assert np.abs(steps).max() / np.abs(steps).min() < 1.2


@pytest.mark.parametrize("theme", WEIGHTS)
def test_the_scale_runs_from_the_paper_to_its_opposite(theme: str) -> None:
    assert contrast(WEIGHTS[theme][0], PAPER[theme]) < 1.3
    assert contrast(WEIGHTS[theme][-1], PAPER[theme]) > 12


@pytest.mark.parametrize("theme", WEIGHTS)
def test_masked_is_not_on_the_scale_and_text_can_be_read(theme: str) -> None:
    masked = np.array([int(MASKED[theme][i : i + 2], 16) for i in (1, 3, 5)])
    for color in WEIGHTS[theme]:
        other = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])
        assert np.abs(masked - other).max() > 20
    assert contrast(TEXT[theme], PAPER[theme]) > 7


@pytest.mark.parametrize("theme", WEIGHTS)
def test_the_codes_of_a_mosaic_have_the_colors_of_what_they_mean(theme: str) -> None:
    scale = [(at * LAST_CODE, color) for at, color in THEMES[theme].layout.coloraxis2.colorscale]

    def color(code: int) -> str:
        return max((at, i, color) for i, (at, color) in enumerate(scale) if at <= code)[2]

    assert color(GAP_CODE) == PAPER[theme]
    assert color(MASKED_CODE) == MASKED[theme]
    assert color(FIRST_CODE) == WEIGHTS[theme][0]
    assert color(LAST_CODE) == WEIGHTS[theme][-1]


def test_themed_leaves_the_figure_as_it_is() -> None:
    figure = go.Figure(go.Heatmap(z=[[1]]))
    dark = themed(figure, "dark")
    assert dark.layout.paper_bgcolor == PAPER["dark"]
    assert figure.layout.paper_bgcolor is None


def test_a_light_figure_has_the_template_and_refuses_unknown_options() -> None:
    figure = light_figure()
    assert figure.layout.template == THEMES["light"]
    with pytest.raises(ValueError, match="nonsense"):
        figure.update_layout(nonsense=1)
    with pytest.raises(ValueError, match="nonsense"):
        light_figure(layout={"nonsense": 1})
