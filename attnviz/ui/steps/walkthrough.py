"""The computation as matrices, stage by stage, with what was written into them by hand."""

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from attnviz.formatting import visible
from attnviz.lessons.steps import Edits, Kind, Matrix, Steps, read, steps, write
from attnviz.scores import Dot, General, ScaledDot, Score
from attnviz.ui import cache
from attnviz.ui.matrices import Stage, as_shown, matrices
from attnviz.ui.steps import example_picker

TITLES = {
    "vectors": "Vectors",
    "similarity": "Similarity",
    "scaling": "Scaling",
    "biases": "Biases",
    "mask": "Mask",
    "exp": "Exponential",
    "softmax": "Softmax",
    "output": "Weighted sum",
    "heads": "Heads together",
}
ALIKE: dict[type[Score], str] = {
    ScaledDot: "Their dot product says it.",
    Dot: "Their dot product says it.",
    General: "A learned matrix W maps the query to the keys; then their dot product says it.",
}
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@dataclass(frozen=True, eq=False)
class Walk:
    """An example with its edits, computed."""

    example: Kind
    edits: Edits
    steps: Steps


def walk(example: Kind, edits: Edits) -> Walk:
    """The example, computed once for everybody who asks the same."""
    return Walk(example, edits, cache.once(lambda: steps(example, edits), "steps", example, write(edits)))


def edited(example: Callable[[], Kind]) -> tuple[Edits, str]:
    """What the link says was written by hand, as far as the example has a place for it; and what it has no place
    for, as a sentence."""
    try:
        edits = read(_linked("edits"))
    except ValueError as problem:
        return {}, f"The numbers written by hand are left out. {problem}"
    try:
        places = walk(example(), {}).steps.matrices
    except ValueError:  # which the page will say
        return {}, ""
    kept = {
        name: {at: value for at, value in cells.items() if _has(places.get(name), *at)} for name, cells in edits.items()
    }
    kept = {name: cells for name, cells in kept.items() if cells}
    lost = sum(map(len, edits.values())) - sum(map(len, kept.values()))
    count = "1 number" if lost == 1 else f"{lost} numbers"
    return kept, f"{count} written by hand had a place that is not here, and can’t be shown." if lost else ""


def refused(example: Callable[[], Kind], edits: Edits) -> str:
    """Why the example can't be shown, as a sentence; empty when it can."""
    try:
        walk(example(), edits)
    except ValueError as problem:
        return str(problem)
    return ""


def show(shown: Walk, head: int, row: int, problem: str) -> None:
    """The matrices of one head, and the query that is followed; a problem stands where a sum would."""
    whole = shown.steps
    heads = whole.inputs.heads
    head = min(head, heads - 1)  # that of the last good example may have had fewer
    tokens, keys = whole.inputs.query_tokens, whole.inputs.key_tokens
    drawn = whole.of_head(head)

    def named(matrix: Matrix) -> dict:
        return as_shown(matrix, matrix.rows in (tokens, keys), matrix.columns == keys)

    def edit(name: str, i: int, j: int, text: str) -> None:
        after = {matrix: dict(cells) for matrix, cells in shown.edits.items()}
        try:
            if text:
                after.setdefault(name, {})[i, j] = float(text)
            else:
                after.get(name, {}).pop((i, j), None)
            walk(shown.example, after)
        except ValueError as problem:
            st.session_state["steps refused"] = str(problem)
        else:
            _write("edits", write(after))

    stage = _linked("stage")
    stages = tuple(_told(name, shown, drawn, head, row) for name in whole.stages)
    several = heads > 1
    matrices(
        cache.once(lambda: [named(one) for one in drawn], "shown", shown.example, write(shown.edits), head),
        stages,
        "matrices",
        stage=stage if stage in whole.stages else whole.stages[0],
        row=row,
        named=f"head{_index(head)} =" if several else "",
        concat=f"Concat({', '.join(f'head{_index(i)}' for i in range(heads))})" if several else "",
        problem=st.session_state.pop("steps refused", "") or problem,
        on_stage=lambda name: _write("stage", "" if name == whole.stages[0] else name),
        on_query=lambda i: example_picker.follow(tokens, i),
        on_edit=edit,
        on_undo=lambda: _write("edits", ""),
    )


def _told(name: str, shown: Walk, drawn: tuple[Matrix, ...], head: int, row: int) -> Stage:
    """A stage in a sentence, and the number of the followed query that it writes out: that of its greatest weight."""
    whole, (heads, _, d_k) = shown.steps, shown.steps.inputs.key.shape
    query = visible(whole.inputs.query_tokens[row])
    weights = whole.matrices[f"weights{head}"].values[row]
    best, *others = weights.argsort(descending=True, stable=True).tolist()
    key = visible(whole.inputs.key_tokens[best])
    says = {
        "vectors": shown.example.vectors,
        "similarity": f"How alike are the query of “{query}” and each key? {ALIKE[type(whole.mechanism.score)]}",
        "scaling": f"Each dot product is divided by √d_k = √{d_k}, so that its spread does not grow with the "
        "vectors’ width.",
        "biases": "Each score is changed by where query and key stand, or by its size.",
        "mask": f"What “{query}” may not see becomes −∞.",
        "exp": "exp makes every score positive. The row’s greatest is subtracted first: no weight changes by that.",
        "softmax": f"Divided by its row’s sum, each number is a weight. The weights of “{query}” add up to 1.",
        "output": f"The values, each times its weight, add up to the output of “{query}”. Most comes from “{key}”.",
        "heads": f"The outputs of the {heads} heads for “{query}” stand side by side.",
    }
    last = [matrix for matrix in drawn if matrix.stage == name and matrix.head in (head, None)][-1]
    if name == "vectors":
        rest = (f"Q{head}", row, 0)
    elif name == "exp":  # of the greatest it is always exp(0)
        rest = (last.name, row, [*others, best][0])
    else:
        rest = (last.name, row, best if last.columns == whole.inputs.key_tokens else 0)
    return Stage(name, TITLES[name], says[name], rest)


def _has(matrix: Matrix | None, row: int, column: int) -> bool:
    return matrix is not None and row < len(matrix.rows) and column < len(matrix.columns)


def _index(head: int) -> str:
    return str(head).translate(SUBSCRIPTS)


def _linked(name: str) -> str:
    """What the link says, or said when this page was last open."""
    value = st.query_params.get(name) or st.session_state.get(f"steps {name}", "")
    _write(name, value)
    return value


def _write(name: str, value: str) -> None:
    st.session_state[f"steps {name}"] = value
    if value and st.query_params.get(name) != value:
        st.query_params[name] = value
    elif not value and name in st.query_params:
        del st.query_params[name]
