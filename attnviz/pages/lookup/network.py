"""The lookup as a network, for the browser: query and keys, similarities, weights, values and the result, or the
gradients back."""

from dataclasses import asdict
from typing import Any

from attnviz.base.formatting import enumeration, number, visible
from attnviz.base.language import N_, _
from attnviz.figures.plane import COLORS
from attnviz.mechanism import Mechanism
from attnviz.normalizers import Hard, Identity, Softmax, Uniform
from attnviz.pages.lookup.dictionary import EXACT, Exact, lookup_gradient
from attnviz.pages.lookup.gradients import lookup_gradients
from attnviz.pages.lookup.sentences import result_text
from attnviz.pages.lookup.state import LookupState
from attnviz.scores import Additive, Cosine, Dot, General, ScaledDot, Score

FORMULAS: dict[type[Score], str] = {
    ScaledDot: "q · k / √2",
    Dot: "q · k",
    General: "(qW) · k",
    Additive: "vᵀ tanh(W_q q + W_k k)",
    Cosine: "cos(q, k)",
}
HOW_TO_READ = N_(
    "Thicker lines carry larger numbers; a negative similarity is dashed. Each weight needs all similarities."
)
WHY_NO_GRADIENT = {
    EXACT: N_(
        "No gradient gets to the query and the keys: an equality does not become a little more equal. "
        "Only values can learn here."
    ),
    "hard": N_(
        "No gradient gets past the weights: a small move changes no weight, as the most similar key "
        "stays the most similar. Only values can learn here."
    ),
    "uniform": N_(
        "No gradient gets past the weights: they are equal whatever the similarities are. Only values can learn here."
    ),
}
FLOW = N_(
    "How much the result changes if a number grows a little, back over the same lines: blue raises "
    "the result, orange lowers it. Every query, key and value gets its part."
)
JUMP = N_("The result jumps here: there is no gradient. Move the query a little.")


def network_content(state: LookupState) -> dict[str, Any]:
    """Returns what the browser needs of a lookup (ui/network/types.d.ts): while the query of the plane is dragged, it
    computes the numbers itself."""
    dictionary, lookup = state.table, state.result
    weights = [
        _("{weight} for {word}", weight=number(weight), word=word)
        for weight, word in zip(lookup.weights, dictionary.words, strict=True)
    ]
    return {
        "plane": "plane",
        "words": [visible(word) for word in dictionary.words],
        "colors": COLORS[: len(dictionary.words)],
        "keys": dictionary.keys.tolist(),
        "values": dictionary.values.tolist(),
        "query": state.query,
        **parameters(state.mechanism),
        "numbers": numbers(state),
        "projects": isinstance(state.mechanism.score, General),
        "backward": state.gradients,
        "formulas": {
            "similarity": _("equal? 1 or 0") if state.softness == EXACT else FORMULAS[type(state.score)],
            "weight": _weight_formula(state.softness),
        },
        "sentence": sentence(state, at_rest=True),
        "movingSentence": sentence(state, at_rest=False),
        "description": _(
            "A network from the query and the keys over similarities and weights to the result, {result}. "
            "The weights are {weights}.",
            result=result_text(lookup.result),
            weights=enumeration(weights),
        ),
    }


def sentence(state: LookupState, *, at_rest: bool) -> str:
    """Returns the sentence under the network: how to read it, or where gradients stop and why."""
    if not state.gradients:
        return _(HOW_TO_READ)
    if at_rest and lookup_gradient(state.table, state.query, state.mechanism) is None:
        return _(JUMP)
    return _(WHY_NO_GRADIENT.get(state.softness, FLOW))


def numbers(state: LookupState) -> dict[str, Any]:
    """Returns all numbers of the network as JSON."""
    gradients = lookup_gradients(state.table, state.query, state.mechanism)
    return asdict(state.result) | {"gradients": asdict(gradients)}


def parameters(mechanism: Mechanism) -> dict[str, Any]:
    """Returns a mechanism of two dimensions as JSON, for the browser to compute with."""
    normalizer = mechanism.normalizer
    kinds = {Identity: "identity", Hard: "hard", Uniform: "uniform", Softmax: "softmax"}
    temperature = normalizer.temperature if isinstance(normalizer, Softmax) else 1.0
    return {
        "score": _score_parameters(mechanism.score),
        "normalizer": {"kind": kinds[type(normalizer)], "temperature": temperature},
    }


def _score_parameters(score: Score) -> dict[str, Any]:
    match score:
        case Exact():
            return {"kind": "equal"}
        case Cosine(tau):
            return {"kind": "cosine", "tau": tau}
        case Additive():
            names = ("queryWeight", "keyWeight", "vector")
            matrices = (matrix.tolist() for matrix in score.matrices(2, 2))
            return {"kind": "additive", **dict(zip(names, matrices, strict=True))}
        case General():
            return {"kind": "bilinear", "matrix": score.matrix(2, 2).tolist()}
        case Dot() | ScaledDot():
            factor = 1.0 if isinstance(score, Dot) else 2**-0.5 if score.scale is None else score.scale
            return {"kind": "bilinear", "matrix": [[factor, 0.0], [0.0, factor]]}
        case _:
            raise TypeError(_("The network cannot compute {name}.", name=type(score).__name__))


def _weight_formula(softness: str) -> str:
    if softness == EXACT:
        return _("= similarity")
    if softness.startswith("T"):
        return _("softmax, {softness}", softness=softness)
    return {"hard": _("1 for the highest"), "uniform": _("all equal")}[softness]
