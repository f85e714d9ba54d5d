"""The color bar over a map."""

from attnviz.base.formatting import significant

PLACE = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom"}  # over the map, at its right


def colorbar(
    lowest: float, highest: float, ends: tuple[str, str] = ("", ""), beyond: tuple[bool, bool] = (False, False)
) -> dict[str, object]:
    """Returns a horizontal color bar that names the ends of its scale, with a label for each if they are given, and 0
    where it is between them; `beyond` says whether there are values beyond an end.

    Example:
        >>> colorbar(0.0, 0.957)["ticktext"], colorbar(-0.5, 0.5)["ticktext"]
        (['0', '0.96'], ['−0.5', '0', '0.5'])
        >>> colorbar(-3.0, 3.0, ends=("against", "for it"), beyond=(True, False))["ticktext"]
        ['against ≤ −3', '3 for it']
    """
    texts = {tick: significant(tick, 2 if abs(tick) < 10 else 4) for tick in (lowest, 0.0, highest)}
    texts[lowest], texts[highest] = "≤ " * beyond[0] + texts[lowest], "≥ " * beyond[1] + texts[highest]
    if any(ends):
        texts[lowest], texts[highest] = f"{ends[0]} {texts[lowest]}".strip(), f"{texts[highest]} {ends[1]}".strip()
    ticks = sorted({lowest, highest, 0.0} if lowest < 0 < highest and not any(ends) else {lowest, highest})
    labels = {"tickvals": ticks, "ticktext": [texts[tick] for tick in ticks]}
    # Labels to the left, so that the last one does not leave the picture.
    return PLACE | labels | {"len": 0.5, "ticklabelposition": "outside left"}
