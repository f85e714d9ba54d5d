"""The code of scores, biases and normalizers, for torch and NumPy.

In it, query and key are arrays of shape (batch, heads, tokens, width), {score} stands for one score or all scores, and
h, q_idx and kv_idx for the positions of head, query and key. Tables are defined above the functions.
"""

import math
from dataclasses import dataclass

import torch

from attnviz.biases import KERPLE, ALiBi, Bias, Sandwich, SoftCap, SSMax, T5Buckets
from attnviz.export.layout import NUMPY, TORCH, Target, array_definition, float_literal, quotient, random_definition
from attnviz.export.rules import MaskCode
from attnviz.normalizers import (
    Differential,
    Entmax,
    Hard,
    Identity,
    Normalizer,
    ReLU,
    Sigmoid,
    Sink,
    Softmax,
    SoftmaxPlusOne,
    Softpick,
    Sparsemax,
    StickBreaking,
    TopK,
    Uniform,
)
from attnviz.scores import Additive, Cosine, Dot, General, ScaledDot, Score

ROOT = "query.shape[-1] ** -0.5"


@dataclass(frozen=True)
class ScoreCode:
    """The code of a score: what is done to query and key before their product, and the factor of the product."""

    scale: str = "1"
    lines: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    other: str = ""  # what there is in place of a product

    @property
    def product(self) -> str:
        """The code of all scores in NumPy."""
        if self.other or self.scale == "1":
            return self.other or "query @ key.swapaxes(-1, -2)"
        return f"query @ key.swapaxes(-1, -2) * {self.scale}".replace("* 1 / ", "/ ")


@dataclass(frozen=True)
class BiasCode:
    """The code of a bias: the term that it adds to a score or, if it does not add, the new score."""

    added: str = ""
    replaced: str = ""
    lines: tuple[str, ...] = ()  # before it
    definitions: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()  # definitions that need the mask

    def result(self, score: str) -> str:
        if self.added.startswith("-"):
            return f"{score} - {self.added[1:]}"
        return f"{score} + {self.added}" if self.added else self.replaced.format(score=score)


def score_code(score: Score, target: Target) -> ScoreCode:
    """Returns the code of a score. Raises ValueError for weights too many to be written out."""
    library, d_q, d_k = target.library, target.d_q, target.d_k
    match score:
        case ScaledDot(scale):
            return ScoreCode(ROOT if scale is None else float_literal(scale))
        case Dot():
            return ScoreCode()
        case Cosine(tau):
            lines = tuple(f"{name} = {library.normalized.format(name)}" for name in ("query", "key"))
            return ScoreCode(quotient("1", tau), lines)
        case General(weight, seed):
            spread = (d_q * d_k) ** -0.5
            if weight is None and library is TORCH:
                definition = random_definition("weight", (d_q, d_k), seed * 8, spread)
            else:
                definition = array_definition("weight", score.matrix(d_q, d_k), library)
            return ScoreCode(lines=("query = query @ weight",), definitions=(definition,))
        case Additive():
            weights = dict(zip(("query_weight", "key_weight", "vector"), score.matrices(d_q, d_k), strict=True))
            return ScoreCode(
                lines=("from_query, from_key = query @ query_weight.T, key @ key_weight.T",),
                definitions=tuple(array_definition(name, weight, library) for name, weight in weights.items()),
                other="np.tanh(from_query[..., :, None, :] + from_key[..., None, :, :]) @ vector",
            )
    raise ValueError(f"There is no code for the score {type(score).__name__}. Choose another one.")


def bias_code(bias: Bias, rule: MaskCode | None, number: str, target: Target) -> BiasCode:
    """Returns the code of a bias. The names that it defines end in `number`, which tells two biases apart."""
    library, xp = target.library, target.library.name
    bound = bias.bind(target.queries, target.keys, target.heads)
    match bound:
        case ALiBi(form):
            zero, head = torch.tensor(0), torch.arange(target.heads)
            slopes = -bound(torch.zeros(target.heads), zero, head, torch.tensor(1), zero)
            back = "(q_idx - kv_idx)" if form == "causal" else "abs(q_idx - kv_idx)"
            return BiasCode(
                f"-slopes{number}[h] * {back}", definitions=(array_definition(f"slopes{number}", slopes, library),)
            )
        case T5Buckets(direction, buckets, max_distance, seed, table) if table is not None:
            bucket = bound.bucket(torch.arange(max_distance + 1), torch.tensor(0)).tolist()
            farthest = bucket.index(bucket[-1])  # from there on, all have one bucket
            if direction == "causal":
                place = f"place = bucket{number}[(q_idx - kv_idx).{library.clamp}(min=0, max={farthest})]"
            else:
                place = f"place = bucket{number}[abs(q_idx - kv_idx).{library.clamp}(max={farthest})]"
                place += f" + {buckets // 2} * (kv_idx > q_idx)"
            name, is_drawn = f"learned{number}", bound != bias and library is TORCH
            definitions = (
                "# The bucket of each distance, and what a bucket adds in each head.",
                array_definition(f"bucket{number}", bucket[: farthest + 1], library),
                random_definition(name, table.shape, seed) if is_drawn else array_definition(name, table, library),
            )
            return BiasCode(f"{name}[place, h]", lines=(place,), definitions=definitions)
        case KERPLE("logarithmic", r1, r2):
            return BiasCode(f"-{float_literal(r1)} * {xp}.log1p({float_literal(r2)} * abs(q_idx - kv_idx))")
        case KERPLE("power", r1, r2):
            return BiasCode(f"-{float_literal(r1)} * abs(q_idx - kv_idx) ** {float_literal(r2)}")
        case Sandwich(width, heads, span):
            double, single = (", dtype=torch.float64", ".float().to(device)") if library is TORCH else ("", "")
            definitions = (
                "# What the sinusoids of two positions have in common, for each distance.",
                f"wavelengths{number} = 10000 ** ({xp}.arange(2, {width + 1}, 2{double}) / {width})",
                f"common{number} = {xp}.cos({xp}.arange({span})[:, None] / wavelengths{number}).sum(-1){single}",
            )
            return BiasCode(f"common{number}[abs(q_idx - kv_idx)] * {heads} / (8 * (h + 1))", definitions=definitions)
        case SoftCap(cap):
            return BiasCode(replaced=f"{float_literal(cap)} * {xp}.tanh({{score}} / {float_literal(cap)})")
        case SSMax(s):
            return _scaled_by_keys(s, rule, number, target)
    raise ValueError(f"There is no code for the bias {type(bias).__name__}. Leave it out, or choose another one.")


def _scaled_by_keys(s: float, rule: MaskCode | None, number: str, target: Target) -> BiasCode:
    """Returns the code of SSMax: scores times the logarithm of the number of keys that a query sees."""
    if not rule:
        comment = f"# {float_literal(s)} times the logarithm of {target.keys}, the number of keys of each query."
        factor = f"factor{number} = {float_literal(s * math.log(target.keys))}"
        return BiasCode(replaced=f"{{score}} * factor{number}", counted=(comment, factor))
    comment = "# How many keys each query sees; 1 where it sees none, whose logarithm is 0 too."
    if target.library is NUMPY:
        visible = "seen = np.broadcast_to(allowed, scores.shape).sum(-1, keepdims=True).clip(min=1)"
        return BiasCode(replaced=f"{{score}} * {float_literal(s)} * np.log(seen)", counted=(comment, visible))
    visible = f"seen = create_mask(mask_mod, {rule.sizes(target)}, device=device).sum(-1).clip(min=1)"
    place = ", ".join([*(name if name in rule.positions else "0" for name in ("b", "h")), "q_idx"])
    return BiasCode(replaced=f"{{score}} * {float_literal(s)} * torch.log(seen[{place}])", counted=(comment, visible))


def normalizer_code(normalizer: Normalizer, masked: bool) -> list[str]:
    """Returns the lines that turn `scores`, −∞ where masked, into weights, in NumPy; empty rows become zeros.

    Raises ValueError for a normalizer of several maps of scores.
    """
    greatest = "greatest = scores.max(-1, keepdims=True)"
    lowered = "np.where(greatest == -np.inf, 0, greatest)" if masked else "greatest"  # −∞ − −∞ is NaN
    visible = "seen = (scores > -np.inf).sum(-1, keepdims=True).clip(min=1)"
    total = "total = weights.sum(-1, keepdims=True)"
    match normalizer:
        case Softmax(temperature):
            cooled = [f"scores = scores / {float_literal(temperature)}"] if temperature != 1 else []
            exponentials = [*cooled, greatest, f"weights = np.exp(scores - {lowered})"]
            if not masked:
                return [*exponentials, "return weights / weights.sum(-1, keepdims=True)"]
            return [*exponentials, total, "return weights / np.where(total == 0, 1, total)"]
        case Hard():
            return [
                "greatest = (scores == scores.max(-1, keepdims=True)) & (scores > -np.inf)",
                "return greatest / greatest.sum(-1, keepdims=True).clip(min=1)",
            ]
        case Uniform():
            return ["seen = scores > -np.inf", "return seen / seen.sum(-1, keepdims=True).clip(min=1)"]
        case SoftmaxPlusOne() | Sink():
            logits = normalizer.logit if isinstance(normalizer, Sink) else 0.0
            several = isinstance(logits, torch.Tensor) and logits.ndim > 0
            sink = "sink[:, None, None]" if several else float_literal(float(logits))
            return [
                *([array_definition("sink", logits, NUMPY)] if isinstance(logits, torch.Tensor) and several else []),
                f"greatest = np.maximum(scores.max(-1, keepdims=True), {sink})",
                "weights = np.exp(scores - greatest)",
                f"return weights / (weights.sum(-1, keepdims=True) + np.exp({sink} - greatest))",
            ]
        case Sparsemax():
            return normalizer_code(Entmax(2.0), masked)
        case Entmax(1.0):
            return normalizer_code(Softmax(), masked)
        case Entmax(alpha):
            return [
                greatest,
                f"scores = {float_literal(alpha - 1)} * (scores - {lowered}).astype(np.float64)",
                "# The threshold at which what is above it adds up to 1, by halving.",
                "low, high = np.full(greatest.shape, -1.0), np.zeros(greatest.shape)",
                "for _ in range(60):",
                "    middle = (low + high) / 2",
                f"    weights = np.maximum(scores - middle, 0) ** {float_literal(1 / (alpha - 1))}",
                "    over = weights.sum(-1, keepdims=True) > 1",
                "    low, high = np.where(over, middle, low), np.where(over, high, middle)",
                "return weights",
            ]
        case TopK(k):
            return [
                f"last = np.sort(scores)[..., -{k}:][..., :1]",
                "scores = np.where(scores < last, -np.inf, scores)",
                *normalizer_code(Softmax(), masked),
            ]
        case Sigmoid():
            return [visible, "return np.exp(-np.logaddexp(0, np.log(seen) - scores))"]
        case ReLU():
            return [visible, "return np.maximum(scores, 0) / seen"]
        case Softpick():
            return [
                "greatest = np.maximum(scores.max(-1, keepdims=True), 0)",
                "weights = np.exp(scores - greatest) - np.exp(-greatest)",
                "total = np.where(scores > -np.inf, abs(weights), 0).sum(-1, keepdims=True)",
                "return np.maximum(weights, 0) / (total + 1e-08 * np.exp(-greatest))",
            ]
        case StickBreaking():
            return [
                "# The logarithm of what a key and those after it leave, from the last key to the first.",
                "left = -np.logaddexp(0, scores)[..., ::-1].cumsum(-1)[..., ::-1]",
                "return np.exp(scores + left)",
            ]
        case Differential():
            raise ValueError(
                "Differential compares two halves of every head, and an export here has one map of scores. "
                "Choose another normalizer."
            )
        case Identity():
            return ["return np.where(scores == -np.inf, 0, scores)"]
    raise ValueError(f"There is no code for the normalizer {type(normalizer).__name__}. Choose another one.")
