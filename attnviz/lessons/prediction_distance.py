"""The distance of a reader's prediction from a query's weights."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from attnviz.base.language import value_error


def shares(points: Mapping[int, int | float], keys: int) -> Float[np.ndarray, " keys"]:
    """Returns points for some keys as a distribution over all of them; if all points are 0, those keys are equal.

    Raises ValueError if there are no points, if some are negative, or if they are for a key that does not exist.

    Example:
        >>> shares({0: 1, 2: 3}, keys=4)
        array([0.25, 0.  , 0.75, 0.  ])
    """
    prediction = np.zeros(keys)
    for key, count in points.items():
        if not 0 <= key < keys:
            raise value_error("A prediction is about keys 0 to {keys}; it has key {key}.", keys=keys - 1, key=key)
        prediction[key] = count
    if not points or not np.isfinite(prediction).all() or (prediction < 0).any():
        raise value_error("A prediction gives points, 0 or more, to at least one key.")
    if not prediction.any():
        prediction[list(points)] = 1
    return normalized(prediction)


def is_predictable(weights: Float[np.ndarray, " keys"]) -> bool:
    """Returns whether weights are a distribution: none is negative, and not all are 0. NaN, masked, counts as 0."""
    known = np.nan_to_num(weights.astype("f8"))
    return bool((known >= 0).all() and known.any())


def normalized(weights: Float[np.ndarray, " keys"]) -> Float[np.ndarray, " keys"]:
    """Returns the weights divided by their sum; NaN, masked, becomes 0."""
    known = np.nan_to_num(weights.astype("f8"))
    known = known / known.max()  # first, so that the sum neither overflows nor vanishes
    return known / known.sum()


def total_variation(prediction: Float[np.ndarray, " keys"], weights: Float[np.ndarray, " keys"]) -> float:
    """Returns the total variation distance of a prediction and weights, ½ Σ |prediction − weights|, both normalized.

    It is the share of the prediction on wrong keys: 0 for a correct prediction, 1 for one without overlap. NaN, masked,
    counts as 0. Raises ValueError if one of them is not predictable, or if their lengths differ.

    Example:
        >>> total_variation(np.array([1.0, 0.0]), np.array([0.75, 0.25]))
        0.25
    """
    if prediction.shape != weights.shape:
        raise value_error(
            "A prediction has a share for each key; it has {count}, and there are {weights} weights.",
            count=len(prediction),
            weights=len(weights),
        )
    if not (is_predictable(prediction) and is_predictable(weights)):
        raise value_error(
            "Only shares can be compared: weights of 0 or more that are not all 0. Choose another normalizer or query."
        )
    return float(np.abs(normalized(prediction) - normalized(weights)).sum() / 2)


def overlaps(prediction: Float[np.ndarray, " keys"], weights: Float[np.ndarray, " keys"]) -> Float[np.ndarray, " keys"]:
    """Returns what a prediction and weights have in common at each key, min(prediction, weight), both normalized.

    Their sum is 1 minus the total variation distance: 1 for a correct prediction, 0 for one without overlap.

    Example:
        >>> overlaps(np.array([1.0, 0.0]), np.array([0.75, 0.25]))
        array([0.75, 0.  ])
    """
    return np.minimum(normalized(prediction), normalized(weights))
