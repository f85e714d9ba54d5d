"""Maps and rows of weights as SVG for paper: light, without scripts, with the tokens as text."""

import re
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from markupsafe import Markup

from attnviz.base.formatting import number, visible
from attnviz.base.language import _, value_error
from attnviz.figures.themes import ACCENT, CHANGES, MASKED, PAPER, TEXT, WEIGHTS

MOST = 48  # tokens along a side that can be read on paper
LONGEST_TOKEN, LONGEST_TITLE = 14, 60  # characters of a token, and of a title
LETTER, SMALL, TITLE = 12, 10, 24  # pixels
WIDEST_LINE = 1600  # pixels of several panels
SIDE, LARGEST_CELL, SMALLEST_CELL = 440, 40, 9  # of a map, and of its cells
NUMBERED = 30  # cells of this size and more have their numbers
CHARACTER = 0.62  # the width of a letter, in its height
BAR, GAP = 14, 3
BAR_WIDTH, BAR_HEIGHT = 22, 90
LOWEST_BAR = 0.2  # pixels of a bar that has its number
Pixels = float | int


def svg_map(
    weights: Float[np.ndarray, "queries keys"],
    query_tokens: Sequence[str],
    key_tokens: Sequence[str],
    *,
    largest: float,
    row: int | None = None,
    most: int = MOST,
    reverse: bool = False,
) -> Markup:
    """Returns a heatmap as an SVG element, with colors from 0, or from −`largest` where a weight is negative, to
    `largest`, or with `reverse` the other way round; NaN is masked, `row` is outlined. Raises ValueError if it has more
    than `most` queries or keys.

    Example:
        >>> svg_map(np.array([[0.9, 0.1]]), ["it"], ["animal", "<b>"], largest=1.0).count("<rect")
        13
    """
    queries, keys = weights.shape
    if max(queries, keys) > most:
        raise value_error(
            "As SVG, a map has at most {most} queries and keys; this one has {queries} × {keys}.",
            most=most,
            queries=queries,
            keys=keys,
        )
    least = -largest if (weights < 0).any() else 0.0
    scale = (CHANGES if least < 0 else WEIGHTS)["light"][:: -1 if reverse else 1]
    cell = max(SMALLEST_CELL, min(LARGEST_CELL, SIDE // max(queries, keys)))
    letter = min(LETTER, cell + 1)
    rows, columns = ([_short(token) for token in tokens] for tokens in (query_tokens, key_tokens))
    left, below = (round(max(map(len, names)) * letter * CHARACTER) + 10 for names in (rows, columns))
    top = BAR + LETTER
    parts = [_colorbar(left, scale, least, largest, masked=bool(np.isnan(weights).any()))]
    for i in range(queries):
        for j in range(keys):
            parts.append(_cell(float(weights[i, j]), left + j * cell, top + i * cell, cell, scale, least, largest))
    if row is not None:
        parts.append(
            Markup('<rect x="{}" y="{}" width="{}" height="{}" fill="none" stroke="{}" stroke-width="2"/>').format(
                left, top + row * cell, keys * cell, cell, ACCENT
            )
        )
    for i, name in enumerate(rows):
        parts.append(_text(name, left - 5, top + (i + 0.5) * cell, letter, "end", bold=i == row))
    foot = top + queries * cell
    for j, name in enumerate(columns):
        parts.append(_text(name, left + (j + 0.5) * cell, foot + 5, letter, "end", turned=True))
    return _svg(max(left + keys * cell + 8, left + 240), foot + below + 4, parts)


def svg_row(
    weights: Float[np.ndarray, " keys"] | None, key_tokens: Sequence[str], *, largest: float, size: int = BAR_HEIGHT
) -> Markup:
    """Returns the weights of one query as bars, `size` pixels high; without weights, boxes for a person to write in.

    Raises ValueError if it has more than MOST keys.
    """
    if len(key_tokens) > MOST:
        raise value_error(
            "As SVG, a row has at most {most} keys; this one has {keys}.", most=MOST, keys=len(key_tokens)
        )
    least = 0.0 if weights is None else min(0.0, float(np.nanmin(weights, initial=0)))
    names = [_short(token) for token in key_tokens]
    wide = BAR_WIDTH if len(names) > 12 else 36
    foot = LETTER + size
    deep = round(-least / largest * (size - LETTER)) + (LETTER if least else 0)
    below = deep + round(max(map(len, names)) * LETTER * CHARACTER) + 12
    parts = []
    for i, name in enumerate(names):
        x = 4 + i * (wide + GAP)
        if weights is None:
            parts.append(_rect(x, foot - 28, wide, 28, PAPER["light"], stroke="#868e96"))
        else:
            parts.append(_bar(float(weights[i]), x, foot, wide, size, largest))
        parts.append(_text(name, x + wide / 2, foot + deep + 6, LETTER, "end", turned=True))
    width = 8 + len(names) * (wide + GAP)
    if weights is not None:
        parts.append(_rect(4, foot, width - 8 - GAP, 1, "#868e96"))
    top = 0 if weights is not None else foot - 32
    return _svg(width, foot + below, parts, top)


def svg_panels(panels: Sequence[tuple[str, Markup]], note: str = "") -> Markup:
    """Returns SVG elements in lines that are WIDEST_LINE pixels wide, each below its title; the note is below all."""
    parts: list[Markup] = []
    x = y = right = bottom = 0.0
    for title, panel in panels:
        width, height = map(float, re.findall(r' (?:width|height)="([^"]+)"', panel)[:2])
        name = _short(title, LONGEST_TITLE)
        width = max(width, len(name) * LETTER * CHARACTER)
        if x and x + width > WIDEST_LINE:
            x, y = 0.0, bottom + TITLE
        parts.append(_text(name, x + 4, y + TITLE / 2, LETTER, "start", bold=True))
        parts.append(Markup('<svg x="{:g}" y="{:g}"').format(x, y + TITLE) + panel[len("<svg") :])
        right, bottom = max(right, x + width), max(bottom, y + TITLE + height)
        x += width + TITLE
    if note:
        parts.append(_text(note, 4, bottom + TITLE / 2, SMALL, "start"))
        right, bottom = max(right, len(note) * SMALL * CHARACTER), bottom + TITLE
    return _svg(right, bottom, parts)


def _bar(weight: float, x: Pixels, foot: Pixels, wide: Pixels, size: Pixels, largest: float) -> Markup:
    if np.isnan(weight):
        return _rect(x, foot - 6, wide, 6, MASKED["light"])
    height = round(abs(weight) / largest * (size - LETTER), 2)
    has_number = abs(weight) >= 0.005 and height >= LOWEST_BAR
    end = foot - height if weight >= 0 else foot + height
    text = _text(number(weight), x + wide / 2, end + (6 if weight < 0 else -6), SMALL - (wide < 30), "middle")
    return _rect(x, min(foot, end), wide, height, WEIGHTS["light"][6]) + (text if has_number else Markup())


def _cell(
    weight: float, x: Pixels, y: Pixels, size: Pixels, scale: Sequence[str], least: float, largest: float
) -> Markup:
    if np.isnan(weight):
        return _rect(x, y, size, size, MASKED["light"], stroke=PAPER["light"])
    share = min((weight - least) / (largest - least), 1.0)
    cell = _rect(x, y, size, size, _color(share, scale), stroke=PAPER["light"])
    if size < NUMBERED:
        return cell
    ink = PAPER["light"] if abs(weight) > 0.45 * largest else TEXT["light"]
    return cell + _text(number(weight), x + size / 2, y + size / 2, SMALL, "middle", color=ink)


def _color(share: float, scale: Sequence[str]) -> str:
    """Returns the color at a share of a scale, between the two nearest."""
    place = share * (len(scale) - 1)
    first = min(int(place), len(scale) - 2)
    ends = ([int(scale[i][j : j + 2], 16) for j in (1, 3, 5)] for i in (first, first + 1))
    return "#" + "".join(f"{round(one + (two - one) * (place - first)):02x}" for one, two in zip(*ends, strict=True))


def _colorbar(x: Pixels, scale: Sequence[str], least: float, largest: float, masked: bool) -> Markup:
    """Returns the scale of the colors with its ends, and the color of what is masked."""
    begin = number(least) if least else "0"
    parts = [_text(begin, x, LETTER / 2 + 2, SMALL, "start")]
    x += round((len(begin) - 1) * SMALL * CHARACTER)
    parts += [_rect(x + 10 + i * 9, 2, 9.5, LETTER, color) for i, color in enumerate(scale)]
    parts.append(_text(number(largest), x + 14 + len(scale) * 9, LETTER / 2 + 2, SMALL, "start"))
    if masked:
        parts.append(_rect(x + 160, 2, LETTER, LETTER, MASKED["light"]))
        parts.append(_text(_("masked"), x + 177, LETTER / 2 + 2, SMALL, "start"))
    return Markup().join(parts)


def _rect(x: Pixels, y: Pixels, width: Pixels, height: Pixels, color: str, stroke: str = "") -> Markup:
    line = Markup(' stroke="{}"').format(stroke) if stroke else Markup()
    return Markup('<rect x="{:g}" y="{:g}" width="{:g}" height="{:g}" fill="{}"{}/>').format(
        x, y, width, height, color, line
    )


def _text(
    text: str,
    x: Pixels,
    y: Pixels,
    size: Pixels,
    anchor: str,
    *,
    turned: bool = False,
    bold: bool = False,
    color: str = "",
) -> Markup:
    turn = Markup(' transform="rotate(-90 {:g} {:g})"').format(x, y) if turned else Markup()
    weight = Markup(' font-weight="700"') if bold else Markup()
    return Markup(
        '<text x="{:g}" y="{:g}" font-size="{:g}" text-anchor="{}" dominant-baseline="central" fill="{}"{}{}>{}</text>'
    ).format(x, y, size, anchor, color or TEXT["light"], weight, turn, text)


def _short(token: str, longest: int = LONGEST_TOKEN) -> str:
    text = "".join(one for one in visible(token) if one.isprintable())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _svg(width: Pixels, height: Pixels, parts: Sequence[Markup], top: Pixels = 0) -> Markup:
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{0:g}" height="{1:g}" viewBox="0 {2:g} {0:g} {1:g}" '
        'font-family="Segoe UI, Helvetica, Arial, sans-serif">{3}</svg>'
    ).format(width, height - top, top, Markup().join(parts))
