"""The stages of the computation on Steps: what each says, and its matrices."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from attnviz.base.formatting import fixed, visible
from attnviz.base.language import N_, _, plural
from attnviz.lessons.checks import Quantities, row_quantities
from attnviz.page.blocks import Anchor, Block, Columns, Note, Paragraph, Summary, Table
from attnviz.page.html import element
from attnviz.page.result_cache import result_cache
from attnviz.pages.steps.edits import format_edits
from attnviz.pages.steps.matrix import Matrix
from attnviz.pages.steps.state import StepsState
from attnviz.scores import Dot, General, ScaledDot, Score

TITLES = {
    "queries": N_("Queries"),
    "keys": N_("Keys"),
    "similarity": N_("Similarity"),
    "scaling": N_("Scaling"),
    "biases": N_("Biases"),
    "mask": N_("Mask"),
    "exp": N_("Exponential"),
    "softmax": N_("Softmax"),
    "values": N_("Values"),
    "output": N_("Weighted sum"),
    "heads": N_("Heads together"),
    "projection": N_("Output matrix"),
    "contributions": N_("What each head adds"),
}
SIMILARITY: dict[type[Score], str] = {
    ScaledDot: N_("Their dot product is the similarity."),
    Dot: N_("Their dot product is the similarity."),
    General: N_("A learned matrix W maps the query to the keys; their dot product is the similarity."),
}
ACROSS = 3  # matrices in a row
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@dataclass(frozen=True)
class Stage:
    """One stage of the computation."""

    name: str
    title: str
    caption: str
    cell: tuple[str, int, int]  # matrix, row and column of the number whose formula is shown first


def current_stage(state: StepsState) -> str:
    """Returns the name of the stage that is shown: the first one, where the example does not have that of the link."""
    return state.stage if state.stage in state.steps.stages else state.steps.stages[0]


def stages(state: StepsState) -> tuple[Stage, ...]:
    """Returns the stages with their sentences, each with the cell of the largest weight or what it is made of."""
    return tuple(_stage(name, state) for name in state.steps.stages)


def _stage(name: str, state: StepsState) -> Stage:
    steps, head, row = state.steps, state.head_shown, state.query
    d_k = steps.inputs.key.shape[-1]
    query = visible(steps.inputs.query_tokens[row])
    weights = steps.matrices[f"weights{head}"].values[row]
    best, *others = weights.argsort(descending=True, stable=True).tolist()
    key = visible(steps.inputs.key_tokens[best])
    sentences = {
        "queries": state.example.origin,
        "keys": _(
            "Each word has a key, too: its vector times another matrix. The query of “{query}” is compared with "
            "the keys.",
            query=query,
        ),
        "similarity": _(
            "How similar are the query of “{query}” and each key? {similarity}",
            query=query,
            similarity=_(SIMILARITY[type(steps.mechanism.score)]),
        ),
        "scaling": _(
            "Each dot product is divided by √d_k = √{d_k}, so that its spread does not grow with the vectors’ width.",
            d_k=d_k,
        ),
        "biases": _("A bias is added to each score. It depends on positions, or on the score."),
        "mask": _("The score of a key that “{query}” may not look at becomes −∞.", query=query),
        "exp": _(
            "exp(score − largest score in the row) makes every score positive. Subtracting the largest "
            "does not change the weights."
        ),
        "softmax": _(
            "Divided by its row’s sum, each number is a weight. The weights of “{query}” add up to 1.", query=query
        ),
        "values": _("Each word has a value: its vector times a third matrix. Values are what is added up."),
        "output": _(
            "The values, each times its weight, add up to the output of “{query}”. Most comes from “{key}”.",
            query=query,
            key=key,
        ),
        "heads": _(
            "The outputs of the {heads} heads for “{query}” are placed side by side.",
            heads=len(steps.inputs.key),
            query=query,
        ),
        "projection": _("All heads, side by side, times the matrix Wᴼ: one output, as wide as the vector of a word."),
        "contributions": _("Each head times its own rows of Wᴼ is what this head adds. Their sum is the same output."),
    }
    last = stage_matrices(state, name)[-1]
    places = {
        "keys": (best, 0),
        "values": (best, 0),
        "exp": (row, [*others, best][0]),  # of the greatest score it is always exp(0)
    }
    usual = row, best if last.columns == steps.inputs.key_tokens else 0
    return Stage(name, _(TITLES[name]), sentences[name], (last.name, *places.get(name, usual)))


def stage_matrices(state: StepsState, name: str) -> list[Matrix]:
    """Returns the matrices that a stage makes, of the head that is shown or of all heads."""
    head = state.head_shown
    shown = [matrix for matrix in state.steps.for_head(head) if matrix.stage == name]
    return [matrix for matrix in shown if matrix.head in (head, None) or name == "contributions"]


def weight_quantities(state: StepsState) -> Quantities:
    """Returns the weights of the query of the head that is shown."""
    weights = state.steps.matrices[f"weights{state.head_shown}"].values.numpy()
    return row_quantities(state.steps.inputs.key_tokens, weights[state.query])


def lost_edits_sentence(state: StepsState) -> str:
    """Returns a sentence about numbers in the link that have no place in the example; nothing if all have one."""
    if not (lost := sum(map(len, state.edits.values())) - sum(map(len, state.fitting_edits.values()))):
        return ""
    count = plural("{count} number", "{count} numbers", lost, count=lost)
    return _("{count} written by hand had a place that does not exist here, and can’t be shown.", count=count)


def stage_blocks(state: StepsState) -> Iterator[Block]:
    """Yields the current stage with its matrices and what they are made of, and links to the stages around it."""
    name, names = current_stage(state), state.steps.stages
    number, stage = names.index(name), _stage(name, state)
    place = _("{number} of {count}", number=number + 1, count=len(names))
    query = visible(state.steps.inputs.query_tokens[state.query])
    title = element("b", stage.title)
    yield Summary((title, f" ({place}): ", stage.caption), lambda: weight_quantities(state), query)
    made = stage_matrices(state, name)
    computed = [matrix for matrix in made if matrix.sources]
    matrices = [*dict.fromkeys(one for matrix in computed or made for one in (*matrix.sources, matrix))]
    tables = [[Note((element("b", _symbol(one)), " ", one.about)), _table(one, state)] for one in matrices]
    for first in range(0, len(tables), ACROSS):
        row = tables[first : first + ACROSS]
        yield Columns([(1 / ACROSS, blocks) for blocks in (*row, *[[]] * (ACROSS - len(row)))])
    matrix, row_number, column = stage.cell
    cell = state.steps.matrices[matrix]
    names_of_cell = f"[{visible(cell.rows[row_number])}, {visible(cell.columns[column])}]"
    yield Paragraph((element("b", _symbol(cell)), names_of_cell, " = ", cell.formula(row_number, column)))
    around = [("← ", names[number - 1 : number] if number else ()), ("→ ", names[number + 1 : number + 2])]
    yield Paragraph(
        tuple(Anchor(f"{arrow}{_(TITLES[one])}", state.link_with(stage=one)) for arrow, some in around for one in some),
        "attnviz-choices",
    )


def _table(matrix: Matrix, state: StepsState) -> Table:
    rows = [
        (visible(name), *map(fixed, values)) for name, values in zip(matrix.rows, matrix.values.tolist(), strict=True)
    ]
    marked = state.query if matrix.of_queries else None
    return Table(["", *map(visible, matrix.columns)], rows, marked=marked)


def _symbol(matrix: Matrix) -> str:
    return matrix.symbol.replace("^T", "ᵀ").replace("^O", "ᴼ").replace("_", "")


def matrices_content(state: StepsState, problem: str) -> dict[str, Any]:
    """Returns what the browser needs of all stages (ui/matrices/types.d.ts); `problem` is why an edit was refused."""
    steps, head = state.steps, state.head_shown
    tokens, keys, heads = steps.inputs.query_tokens, steps.inputs.key_tokens, steps.inputs.heads
    matrices = result_cache().once(
        lambda: [as_json(one, one.rows in (tokens, keys), one.columns == keys) for one in steps.for_head(head)],
        "matrices",
        state.example,
        format_edits(state.fitting_edits),
        head,
    )
    several = heads > 1
    return {
        "matrices": matrices,
        "stages": [asdict(one) for one in stages(state)],
        "stage": current_stage(state),
        "row": state.query,
        "named": _("head{index} =", index=_index(head)) if several else "",
        "concat": f"Concat({', '.join(f'head{_index(i)}' for i in range(heads))})" if several else "",
        "problem": problem,
        "edits": bool(state.fitting_edits),
    }


def as_json(matrix: Matrix, tokens: bool, keys: bool) -> dict[str, Any]:
    """Returns a matrix as JSON: texts, colors, formulas, and the operands of each number. `tokens` and `keys` tell
    whether the names of rows and columns are words."""
    values = matrix.values.tolist()
    greatest = max((abs(one) for row in values for one in row if abs(one) != math.inf), default=0) or 1
    places = [[(i, j) for j in range(len(row))] for i, row in enumerate(values)]
    return {
        "name": matrix.name,
        "symbol": matrix.symbol,
        "about": matrix.about,
        "stage": matrix.stage,
        "given": not matrix.sources,
        "queries": matrix.of_queries,
        "tokens": tokens,
        "keys": keys,
        "rows": [visible(name) for name in matrix.rows],
        "columns": [visible(name) for name in matrix.columns],
        "texts": [[fixed(one) for one in row] for row in values],
        "exact": [["" if abs(one) == math.inf else f"{one:.6g}" for one in row] for row in values],
        "tints": [[None if abs(one) == math.inf else round(one / greatest, 3) for one in row] for row in values],
        "edited": matrix.edited.tolist(),
        "formulas": [[matrix.formula(i, j) for i, j in row] for row in places],
        "operands": [
            [
                [
                    (cells.matrix, cells.rows.start, cells.rows.stop, cells.columns.start, cells.columns.stop)
                    for cells in matrix.operands(i, j)
                ]
                for i, j in row
            ]
            for row in places
        ],
    }


def _index(head: int) -> str:
    return str(head).translate(SUBSCRIPTS)
