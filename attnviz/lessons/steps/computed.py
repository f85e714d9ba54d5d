"""The whole computation of an example."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch

from attnviz.inputs import Inputs
from attnviz.lessons.steps.edits import Edits
from attnviz.lessons.steps.matrix import Matrix
from attnviz.lessons.steps.operations import Biased, Concatenated, Divided, Exp, Masked, Product, RowSum, Scaled
from attnviz.lessons.steps.work import Head, Kind, Work, numbered
from attnviz.masks import Full
from attnviz.mechanism import Mechanism
from attnviz.scores import Dot, General, ScaledDot


@dataclass(frozen=True, eq=False)
class Steps:
    """Every matrix of an example, in the order of the computation."""

    matrices: Mapping[str, Matrix]
    inputs: Inputs  # the queries, keys and values, with what was written by hand in them or before them
    mechanism: Mechanism  # how they attend, with what was written by hand in its weights
    stages: tuple[str, ...]  # names of the stages, in their order

    def of_head(self, head: int) -> tuple[Matrix, ...]:
        """What one head's result is made of, what all heads share, and the results of all before they are put
        together."""
        everything = self.matrices.values()
        shared = ("output", "heads")
        own = [one for one in everything if one.stage not in shared and one.head in (None, head)]
        return (*own, *(one for one in everything if one.stage in shared))


def steps(example: Kind, edits: Edits | None = None) -> Steps:
    """The whole computation, with the numbers that were written by hand in the place of their own.

    In float64, so that a sum can be followed to the last digit shown.
    Raises ValueError when the example cannot be written out, or an edit is not a number, not in a matrix, or makes
    what follows infinite.
    """
    work = Work(edits or {})
    mechanism, heads = example.begin(work)
    queries, keys, _ = heads[0]
    bound = mechanism.bind(len(queries.rows), len(keys.rows), len(heads))
    outputs = [_output(work, i, head, bound, len(heads)) for i, head in enumerate(heads)]
    if len(outputs) > 1:
        work.add("heads", "Concat", "heads side by side", "heads", Concatenated(), *outputs)
    if unknown := [name for name in work.edits if name not in work.matrices]:
        raise ValueError(f"There is no matrix {unknown[0]} here. There are {', '.join(work.matrices)}.")
    query, key, value = (torch.stack([one.values for one in role]) for role in zip(*heads, strict=True))
    if "W" in work.matrices:
        mechanism = replace(mechanism, score=General(weight=work.matrices["W"].values))
    stages = tuple(dict.fromkeys(one.stage for one in work.matrices.values()))
    return Steps(work.matrices, Inputs(query, key, value, queries.rows, keys.rows), mechanism, stages)


def _output(work: Work, head: int, vectors: Head, bound: Mechanism, heads: int) -> Matrix:
    """One head, from its queries, keys and values to its output."""
    add = partial(work.add, head=head)
    query, key, value = vectors
    score = _similarity(work, head, query, key, bound)
    if bound.biases:
        score = add(f"biased{head}", "+ B", "with biases", "biases", Biased(bound.biases, head), score)
    if bound.mask != Full():
        at = torch.tensor(0), torch.tensor(head), torch.arange(len(query.rows))[:, None], torch.arange(len(key.rows))
        allowed = bound.mask(*at).expand(score.values.shape)
        score = add(f"masked{head}", "+ M", "masked", "mask", Masked(allowed), score)
    exp = add(f"exp{head}", "exp", "of each, less the row’s greatest", "exp", Exp(), score)
    total = add(f"sum{head}", "Σ", "row sums", "softmax", RowSum(), exp)
    weights = add(f"weights{head}", "A", "weights", "softmax", Divided(), exp, total)
    symbol = "AV" if heads == 1 else f"head_{head}"
    return add(f"output{head}", symbol, "values, added up by weight", "output", Product(), weights, value)


def _similarity(work: Work, head: int, query: Matrix, key: Matrix, mechanism: Mechanism) -> Matrix:
    """The scores of one head. One that is no product of matrices is refused."""
    add, score = partial(work.add, head=head), mechanism.score
    dot = Product(transposed=True)
    if isinstance(score, General):
        d_q, d_k = query.values.shape[1], key.values.shape[1]
        if "W" not in work.matrices:  # which all heads share
            numbers = score.matrix(d_q, d_k).to(query.values)
            work.given("W", "W", "of the score", numbers, numbered(d_q), "learned", stage="similarity")
        mapped = add(
            f"mapped{head}", "QW", "queries, mapped to keys", "similarity", Product(), query, work.matrices["W"]
        )
        return add(f"raw{head}", "QWK^T", "their dot products", "similarity", dot, mapped, key)
    if score not in (Dot(), ScaledDot()):
        raise ValueError(
            f"{score} is not written out here; dot product, scaled dot product and general are. Choose one of them."
        )
    raw = add(f"raw{head}", "QK^T", "dot products", "similarity", dot, query, key)
    if isinstance(score, Dot):
        return raw
    d_k = key.values.shape[1]
    return add(f"scaled{head}", f"QK^T/√{d_k}", f"divided by √{d_k}", "scaling", Scaled(d_k), raw)
