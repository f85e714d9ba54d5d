"""The whole computation of an example."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from attnviz.base.language import _, value_error
from attnviz.inputs import Inputs
from attnviz.masks import Full
from attnviz.mechanism import Mechanism
from attnviz.pages.steps.computation import Computation, HeadMatrices, StepsExample
from attnviz.pages.steps.edits import Edits
from attnviz.pages.steps.matrix import Matrix, column_names
from attnviz.pages.steps.operations import Biased, Concatenated, Divided, Exp, Masked, Product, RowTotals, Scaled, Sum
from attnviz.scores import Dot, General, ScaledDot

ALL_HEADS = ("heads", "projection", "contributions")  # stages of all heads
# In the order in which they are read: values are not needed before they are added up.
STAGES = (
    "queries", "keys", "similarity", "scaling", "biases", "mask", "exp", "softmax", "values", "output", *ALL_HEADS
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Steps:
    """All matrices of an example, in the order of the computation."""

    matrices: Mapping[str, Matrix]
    inputs: Inputs  # queries, keys and values, edits included
    mechanism: Mechanism  # with edits in the weights of its score
    stages: tuple[str, ...]  # names of the stages, in their order

    def for_head(self, head: int) -> tuple[Matrix, ...]:
        """Returns the matrices of one head and those without a head, and at the end the outputs of all heads."""
        outputs = [one for one in self.matrices.values() if one.stage in ("output", *ALL_HEADS)]
        others = [one for one in self.matrices.values() if one not in outputs and one.head in (None, head)]
        return (*others, *outputs)


def compute_steps(example: StepsExample, edits: Edits | None = None) -> Steps:
    """Computes all matrices of an example, in float64; `edits` replace single numbers.

    Raises ValueError if the example cannot be written out, or if an edit is not a number, is in no matrix, or makes
    a later number infinite.

    Example:
        >>> from attnviz.pages.steps.sentence_example import SentenceExample
        >>> steps = compute_steps(SentenceExample("to be or not"))
        >>> steps.stages
        ('queries', 'keys', 'similarity', 'scaling', 'exp', 'softmax', 'values', 'output')
        >>> steps.matrices["weights0"].values.shape
        torch.Size([4, 4])
    """
    computation = Computation(edits or {})
    mechanism, heads = example.build(computation)
    queries, keys = heads[0][:2]
    bound = mechanism.bind(len(queries.rows), len(keys.rows), len(heads))
    outputs = [_output(computation, i, head, bound, len(heads)) for i, head in enumerate(heads)]
    if len(outputs) > 1:
        _add_heads(computation, outputs, example)
    if unknown := [name for name in computation.edits if name not in computation.matrices]:
        raise value_error(
            "There is no matrix {unknown} here. The matrices are {matrices}.",
            unknown=unknown[0],
            matrices=", ".join(computation.matrices),
        )
    query, key, value = (torch.stack([one.values for one in role]) for role in zip(*heads, strict=True))
    if "W" in computation.matrices:
        mechanism = replace(mechanism, score=General(weight=computation.matrices["W"].values))
    used = {one.stage for one in computation.matrices.values()}
    stages = tuple(stage for stage in STAGES if stage in used)
    return Steps(computation.matrices, Inputs(query, key, value, queries.rows, keys.rows), mechanism, stages)


def _add_heads(computation: Computation, outputs: Sequence[Matrix], example: StepsExample) -> None:
    """Adds the heads side by side, their product with Wᴼ, and what each head adds to it (Vaswani et al. 2017,
    3.2.2)."""
    concat = computation.add("heads", "Concat", _("heads side by side"), "heads", Concatenated(), *outputs)
    numbers, origin = example.output_matrix()
    about = _("turns all heads into one output: {origin}", origin=origin)
    weight = computation.add_input("WO", "W^O", about, numbers, concat.columns, origin, "projection")
    computation.add("multihead", "MultiHead", _("Concat times Wᴼ"), "projection", Product(), concat, weight)
    d_v = outputs[0].values.shape[1]
    parts = list[Matrix]()
    for i, output in enumerate(outputs):
        about = _("its output times rows {first} to {last} of Wᴼ", first=i * d_v + 1, last=(i + 1) * d_v)
        product = Product(first=i * d_v)
        parts.append(
            computation.add(f"part{i}", f"head_{i}W^O", about, "contributions", product, output, weight, head=i)
        )
    computation.add("total", "Σ", _("their sum, which is MultiHead"), "contributions", Sum(), *parts)


def _output(computation: Computation, head: int, vectors: HeadMatrices, bound: Mechanism, heads: int) -> Matrix:
    """Adds the computation of one head, from its queries, keys and values to its output."""
    add = partial(computation.add, head=head)
    query, key, value = vectors
    score = _similarity(computation, head, query, key, bound)
    if bound.biases:
        score = add(f"biased{head}", "+ B", _("with biases"), "biases", Biased(bound.biases, head), score)
    if bound.mask != Full():
        q, k = torch.arange(len(query.rows))[:, None], torch.arange(len(key.rows))
        allowed = bound.mask(torch.tensor(0), torch.tensor(head), q, k).expand(score.values.shape)
        score = add(f"masked{head}", "+ M", "masked", "mask", Masked(allowed), score)
    exp = add(f"exp{head}", "exp", _("exp(score − largest score in the row)"), "exp", Exp(), score)
    total = add(f"sum{head}", "Σ", _("row sums"), "softmax", RowTotals(), exp)
    weights = add(f"weights{head}", "A", "weights", "softmax", Divided(), exp, total)
    symbol = "AV" if heads == 1 else f"head_{head}"
    return add(f"output{head}", symbol, _("values, added up by weight"), "output", Product(), weights, value)


def _similarity(computation: Computation, head: int, query: Matrix, key: Matrix, mechanism: Mechanism) -> Matrix:
    """Adds the scores of one head. Raises ValueError for scores that are not matrix products."""
    add, score = partial(computation.add, head=head), mechanism.score
    dot = Product(transposed=True)
    if isinstance(score, General):
        d_q, d_k = query.values.shape[1], key.values.shape[1]
        if "W" not in computation.matrices:  # which all heads share
            numbers = score.matrix(d_q, d_k).to(query.values)
            computation.add_input("W", "W", _("of the score"), numbers, column_names(d_q), "learned", "similarity")
        mapped = add(
            f"mapped{head}",
            "QW",
            _("queries, mapped to keys"),
            "similarity",
            Product(),
            query,
            computation.matrices["W"],
        )
        return add(f"raw{head}", "QWK^T", _("their dot products"), "similarity", dot, mapped, key)
    if score not in (Dot(), ScaledDot()):
        raise value_error(
            "{score} is not written out here; dot product, scaled dot product and general are. Choose one of them.",
            score=score,
        )
    raw = add(f"raw{head}", "QK^T", _("dot products"), "similarity", dot, query, key)
    if isinstance(score, Dot):
        return raw
    d_k = key.values.shape[1]
    return add(f"scaled{head}", f"QK^T/√{d_k}", _("divided by √{d_k}", d_k=d_k), "scaling", Scaled(d_k), raw)
