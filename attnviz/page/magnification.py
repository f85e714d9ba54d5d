"""What softmax does to the two highest scores of a row, as a sentence."""

import math
from collections.abc import Sequence

from attnviz.base.formatting import fixed, grouped
from attnviz.base.language import _

MOST = 1000.0  # beyond which a ratio is not written out


def magnification_sentence(
    scores: Sequence[float], names: Sequence[str], temperature: float = 1.0, noun: str = ""
) -> str:
    """Returns a sentence that compares the two highest scores with their weights under softmax.

    Softmax makes ratios of differences: the ratio of two weights is exp(difference of the scores / temperature).
    Scores of −∞ are masked keys; `noun` is what a score is called.
    """
    noun = noun or _("score")
    order = sorted((i for i, score in enumerate(scores) if score > -math.inf), key=lambda i: -scores[i])
    if len(order) < 2:
        return _("Only one key may be looked at: it gets all the weight.")
    highest, second = (scores[i] for i in order[:2])
    best, next_best = (names[i] for i in order[:2])
    difference = highest - second
    if difference == 0:
        return _(
            "{best} and {next_best} have the same {noun}, and so the same weight.",
            best=best,
            next_best=next_best,
            noun=noun,
        )
    exponent = difference / temperature
    ratio = math.exp(exponent) if exponent < math.log(MOST) else math.inf
    written = f"{fixed(highest)} − {fixed(second) if second >= 0 else f'({fixed(second)})'}"
    formula = f"exp({written})" if temperature == 1 else f"exp(({written}) / {temperature:g})"
    weight = _("its weight {times}: {formula}", times=_times(ratio), formula=formula) + (
        f" = {_ratio(ratio)}." if ratio < MOST else "."
    )
    if second <= 0:
        return _(
            "Softmax turns differences into ratios: the {noun} of {best} is {difference} higher "
            "than that of {next_best}, {weight}",
            noun=noun,
            best=best,
            difference=fixed(difference),
            next_best=next_best,
            weight=weight,
        )
    evens_out = _("is so soft here (T = {temperature:g}) that it evens them out", temperature=temperature)
    verb = _("magnifies the highest") if ratio > highest / second else evens_out
    return _(
        "Softmax {verb}: the {noun} of {best} is {times} that of {next_best}, {weight}",
        verb=verb,
        noun=noun,
        best=best,
        times=_times(highest / second),
        next_best=next_best,
        weight=weight,
    )


def _times(ratio: float) -> str:
    return _("{ratio} times", ratio=_ratio(ratio))


def _ratio(ratio: float) -> str:
    return _("more than {count}", count=grouped(int(MOST))) if ratio >= MOST else f"{ratio:.{2 if ratio < 1.1 else 1}f}"
