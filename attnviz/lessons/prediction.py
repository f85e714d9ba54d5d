"""How far a guess of where a query looks is from where it looks."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float


def shares(points: Mapping[int, int | float], keys: int) -> Float[np.ndarray, " keys"]:
    """Points given to some keys as a distribution over all of them; where every point is 0, all those keys alike.

    Raises ValueError when no key, a key that is not there, or fewer than 0 points are given.
    """
    guess = np.zeros(keys)
    for key, many in points.items():
        if not 0 <= key < keys:
            raise ValueError(f"A guess is about keys 0 to {keys - 1}; it has key {key}.")
        guess[key] = many
    if not points or not np.isfinite(guess).all() or (guess < 0).any():
        raise ValueError("A guess gives points, 0 or more, to at least one key.")
    if not guess.any():
        guess[list(points)] = 1
    return scaled(guess)


def can_be_guessed(answer: Float[np.ndarray, " keys"]) -> bool:
    """Whether the weights are shares of something: none is negative, not all are 0. NaN, not allowed, is no weight."""
    weights = np.nan_to_num(answer.astype("f8"))
    return bool((weights >= 0).all() and weights.any())


def scaled(weights: Float[np.ndarray, " keys"]) -> Float[np.ndarray, " keys"]:
    """The weights as shares that add up to 1; NaN, not allowed, has none."""
    known = np.nan_to_num(weights.astype("f8"))
    known = known / known.max()  # first, so that the sum neither overflows nor vanishes
    return known / known.sum()


def distance(guess: Float[np.ndarray, " keys"], answer: Float[np.ndarray, " keys"]) -> float:
    """The share of attention that the guess puts on wrong keys: 0 for equal, 1 for nothing in common.

    The total variation distance, ½ Σ |guess − answer|, with each scaled to add up to 1; NaN, not allowed, counts as 0.
    Raises ValueError where either has a negative weight or nothing but zeros, or where their lengths differ.
    """
    if guess.shape != answer.shape:
        raise ValueError(
            f"A guess has a share for each key of the answer; it has {len(guess)}, the answer {len(answer)}."
        )
    if not (can_be_guessed(guess) and can_be_guessed(answer)):
        raise ValueError(
            "Only shares can be compared: weights of 0 or more that are not all 0. Choose another normalizer or query."
        )
    return float(np.abs(scaled(guess) - scaled(answer)).sum() / 2)
