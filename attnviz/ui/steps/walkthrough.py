"""The computation as matrices, stage by stage."""

from functools import partial

import streamlit as st

from attnviz.formatting import visible
from attnviz.language import N_, _
from attnviz.page import html
from attnviz.scores import Dot, General, ScaledDot, Score
from attnviz.state.steps import StepsState
from attnviz.state.transformer import SEVERAL_HEADS
from attnviz.steps.edits import format_edits
from attnviz.steps.matrix import Matrix
from attnviz.steps.translator_example import TranslatorExample
from attnviz.translator.encoder_decoder import HEADS
from attnviz.ui import cache, presentation, quantities
from attnviz.ui.field_widgets import draw_hidden
from attnviz.ui.matrices import Stage, as_json, matrices
from attnviz.ui.steps.edits import PROBLEM, edit_number
from attnviz.ui.widget_values import choose_option, set_field_value
from attnviz.views.steps import steps as view

TITLES = {
    "vectors": N_("Vectors"),
    "similarity": N_("Similarity"),
    "scaling": N_("Scaling"),
    "biases": N_("Biases"),
    "mask": N_("Mask"),
    "exp": N_("Exponential"),
    "softmax": N_("Softmax"),
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
SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def show(state: StepsState) -> None:
    """Draws the matrices of one head; why an edit was refused is shown instead of a formula."""
    steps, head, row = state.steps, state.head_shown, state.query
    heads, tokens, keys = steps.inputs.heads, steps.inputs.query_tokens, steps.inputs.key_tokens
    step_matrices = steps.for_head(head)
    stage = draw_hidden(StepsState.stage)
    several = heads > 1
    quantities.publish(lambda: view(state).quantities, visible(tokens[row]))
    matrices(
        cache.once(
            lambda: [as_json(one, one.rows in (tokens, keys), one.columns == keys) for one in step_matrices],
            "matrices", state.example, format_edits(state.edits), head,
        ),
        tuple(_stage(name, state, step_matrices) for name in steps.stages),
        "matrices",
        stage=stage if stage in steps.stages else steps.stages[0],
        row=row,
        head_name=_("head{index} =", index=_index(head)) if several else "",
        concat=f"Concat({', '.join(f'head{_index(i)}' for i in range(heads))})" if several else "",
        problem=PROBLEM.pop(),
        on_stage=lambda name: set_field_value(StepsState.stage, "" if name == steps.stages[0] else name),
        on_query=partial(choose_option, StepsState.query, state=state),
        on_edit=partial(edit_number, state),
        on_undo=partial(set_field_value, StepsState.edits, {}),
    )  # fmt: skip
    if isinstance(state.example, TranslatorExample):
        st.html(html.element("p", _rest_of_the_layer(state.example)))


def _rest_of_the_layer(example: TranslatorExample) -> html.Markup:
    """Returns where the steps after one head of the translator can be seen, with a link."""
    sentence = _(
        "In the translator, the outputs of all {heads} heads of a layer are then placed side by "
        "side and multiplied by Wᴼ. These matrices are too large to be read here. See {link}."
    )
    layer = f"{'encoder' if example.use == 'encoder' else 'decoder'} {example.layer}"
    opened = (("text", example.english), ("open", layer), ("unfolded", SEVERAL_HEADS))
    link = html.element("a", _("Transformer → Several heads"), href=presentation.page_link("transformer", opened))
    return html.Markup(sentence).format(heads=HEADS, link=link)


def _stage(name: str, state: StepsState, step_matrices: tuple[Matrix, ...]) -> Stage:
    """Returns a stage with its sentence, and the cell whose formula is shown: that of the largest weight."""
    steps, head, row = state.steps, state.head_shown, state.query
    heads, d_k = len(steps.inputs.key), steps.inputs.key.shape[-1]
    query = visible(steps.inputs.query_tokens[row])
    weights = steps.matrices[f"weights{head}"].values[row]
    best, *others = weights.argsort(descending=True, stable=True).tolist()
    key = visible(steps.inputs.key_tokens[best])
    sentences = {
        "vectors": state.example.origin,
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
        "output": _(
            "The values, each times its weight, add up to the output of “{query}”. Most comes from “{key}”.",
            query=query,
            key=key,
        ),
        "heads": _("The outputs of the {heads} heads for “{query}” are placed side by side.", heads=heads, query=query),
        "projection": _("All heads, side by side, times the matrix Wᴼ: one output, as wide as the vector of a word."),
        "contributions": _("Each head times its own rows of Wᴼ is what this head adds. Their sum is the same output."),
    }
    last = [matrix for matrix in step_matrices if matrix.stage == name and matrix.head in (head, None)][-1]
    if name == "vectors":
        cell = (f"Q{head}", row, 0)
    elif name == "exp":  # of the greatest score it is always exp(0)
        cell = (last.name, row, [*others, best][0])
    else:
        cell = (last.name, row, best if last.columns == steps.inputs.key_tokens else 0)
    return Stage(name, _(TITLES[name]), sentences[name], cell)


def _index(head: int) -> str:
    return str(head).translate(SUBSCRIPTS)
