"""The color bar over a map."""

from attnviz.formatting import significant


def colorbar(lowest: float, highest: float) -> dict[str, object]:
    """Returns a horizontal color bar that names the ends of its scale, and 0 where it is between them.

    Example:
        >>> colorbar(0.0, 0.957)["ticktext"], colorbar(-0.5, 0.5)["ticktext"]
        (['0', '0.96'], ['−0.5', '0', '0.5'])
    """
    ticks = sorted({lowest, highest, 0.0} if lowest < 0 < highest else {lowest, highest})
    return {
        "orientation": "h", "x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "len": 0.5,
        "tickvals": ticks, "ticktext": [significant(tick, 2 if abs(tick) < 10 else 4) for tick in ticks],
        "ticklabelposition": "outside left",  # so that the last one does not leave the picture
    }  # fmt: skip
