"""The three uses in the notation of "Attention Is All You Need", with the sizes of the tensors that ran."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from attnviz.formatting import dimensions
from attnviz.language import N_, _
from attnviz.layer import Layer
from attnviz.masks import Full
from attnviz.page import html
from attnviz.scores import Additive, Dot, General, ScaledDot, Score
from attnviz.state.transformer import TransformerState
from attnviz.translator import VARIANTS, Translation, Translator
from attnviz.translator.encoder_decoder import HEADS, USES, MultiHeadAttention, Use
from attnviz.ui.field_widgets import draw
from attnviz.ui.head_links import steps_address

T = r"^{\mathsf T}"
D = r"d_\text{model}"
TIMES = r" \times "
SCORES: dict[type[Score], str] = {
    ScaledDot: rf"\frac{{QK{T}}}{{\sqrt{{d_k}}}}",
    Dot: rf"QK{T}",
    General: rf"QWK{T}",
    Additive: "S",
}
LEARNED = {  # the weights of a score: what they are called, and their size
    "weight": ("W", ("d_k", "d_k")),
    "query_weight": ("W_q", ("r", "d_k")),
    "key_weight": ("W_k", ("r", "d_k")),
    "vector": ("v", ("r",)),
}
SYMBOLS: dict[Use, tuple[str, str]] = {"encoder": ("X", "X"), "decoder": ("Y", "Y"), "cross": ("Y", "Z")}
COUNTED: dict[Use, tuple[str, str]] = {"encoder": ("n", "n"), "decoder": ("m", "m"), "cross": ("m", "n")}
UNLIKE: dict[type[Score], str] = {
    Dot: N_("the scores of encoder–decoder attention are not divided by $\\sqrt{d_k}$"),
    General: N_("the scores of encoder–decoder attention have a learned matrix $W$ (Luong et al. 2015)"),
    Additive: N_("the scores of encoder–decoder attention come from a small network (Bahdanau et al. 2015)"),
}
PAPER = {"d_model": 512, "h": 8, "d_k": 64, "layers": 6}  # its base model (table 3)


@dataclass(frozen=True)
class NamedTensor:
    """A tensor of an attention layer, with its symbol in the paper, its size, and its name in the code."""

    symbol: str  # in TeX
    letters: tuple[str, ...]  # its size in TeX
    shape: tuple[int, ...]  # its size in the running model
    about: str
    code: str


@dataclass(frozen=True, eq=False)
class AttentionLayer:
    """One attention layer of the translator, in the last step of a translation."""

    use: Use
    number: int  # of its layer
    layer: Layer
    module: MultiHeadAttention
    code: tuple[str, str]  # what the module and the layer are in the code

    @property
    def score(self) -> Score:
        return self.layer.known_mechanism.score

    @property
    def masked(self) -> bool:
        return self.layer.known_mechanism.mask != Full()


def attention_layer(translator: Translator, translation: Translation, use: Use, number: int) -> AttentionLayer:
    """Returns one attention layer of a translation."""
    stack, name = ("encoder" if use == "encoder" else "decoder"), ("cross" if use == "cross" else "attention")
    module = getattr(getattr(translator.model, stack)[number], name)
    code = (f"translator.model.{stack}[{number}].{name}", f'translation.layers(use="{use}")[{number}]')
    return AttentionLayer(use, number, translation.layers(use=use)[number], module, code)


def show(state: TransformerState) -> None:
    """Draws the formulas and the tensors of one use, and the link to the numbers of its chosen head."""
    translator, translation = state.translator, state.translation
    with st.container(horizontal=True, vertical_alignment="center", key="notation-controls"):
        use = draw(TransformerState.symbols_of, state, st.segmented_control, label_visibility="collapsed")
        number, head = divmod(state.heads[use], HEADS)
        st.html(steps_link(translator, translation, use, number, head))
    this = attention_layer(translator, translation, use, number)
    tensors = named_tensors(this)
    with st.container(key="notation"):
        left, right = st.columns([2, 3], gap="large")
        with left:
            # Its menus are not seen in a presentation.
            st.markdown(_("**{use}**, layer {number}", use=_(USES[use]), number=number))
            st.latex(formulas(this), width="content")
            st.markdown(compare_with_paper(translator, this))
        with right:
            st.html(product_diagram(this, tensors))
        st.markdown(tensor_table(tensors))
        st.caption(symbol_legend(this, translation, head))


def formulas(this: AttentionLayer) -> str:
    """Returns the computation of an attention layer in TeX: the paper's equations, with the score and the mask of
    this use."""
    masked = " + M" if this.masked else ""
    scores = rf"\left({SCORES[type(this.score)]}{masked}\right)"
    rows = [_equation(r"\mathrm{Attention}(Q, K, V)", rf"\mathrm{{softmax}}{scores}\, V")]
    if isinstance(this.score, Additive):
        rows.append(rf"&S_{{jl}} = v{T} \tanh(W_q\, q_j + W_k\, k_l)")
    if this.masked:
        rows.append(r"&M_{jl} = \begin{cases} 0 & \text{if } l \le j \\ -\infty & \text{if } l > j \end{cases}")
    heads = r"\mathrm{head}_1, \ldots, \mathrm{head}_h"
    rows += [
        _equation(r"\mathrm{MultiHead}(Q, K, V)", rf"\mathrm{{Concat}}({heads})\, W^O"),
        _equation(r"\mathrm{head}_i", r"\mathrm{Attention}(Q W_i^Q, K W_i^K, V W_i^V)"),
    ]
    return r"\begin{aligned} " + r" \\[0.9em] ".join(rows) + r" \end{aligned}"


def _equation(left: str, right: str) -> str:
    """Returns an equation in two lines, so that it fits on a phone."""
    return rf"&{left} \\ &\quad = {right}"


def named_tensors(this: AttentionLayer) -> dict[str, NamedTensor]:
    """Returns all tensors of an attention layer in the order of the computation, with their sizes in the model."""
    inputs, module, done = this.layer.inputs, this.module, this.layer.known_mechanism(this.layer.inputs)
    (query, memory), (n, m) = SYMBOLS[this.use], COUNTED[this.use]
    rows: dict[str, NamedTensor] = {}

    def add(name: str, symbol: str, letters: tuple[str, ...], shape: Sequence[int], about: str, code: str) -> None:
        rows[name] = NamedTensor(symbol, letters, tuple(shape), about, code)

    input_name = (
        _("words + sine waves of their positions")
        if this.number == 0
        else _("the output of layer {number}", number=this.number - 1)
    )
    input_name = _("the output of self-attention in this layer") if this.use == "cross" else input_name
    symbol = f"Q = K = V = {query}" if query == memory else f"Q = {query}"
    add(
        "vectors",
        symbol,
        (n, D),
        (inputs.queries, module.query.in_features),
        _("{input_name}, normalized", input_name=input_name),
        "vectors",
    )
    if query != memory:
        origin = _("the output of the encoder, normalized; the same for both layers")
        add("memory", f"K = V = {memory}", (m, D), (inputs.keys, module.key.in_features), origin, "memory")
    for role, letter, d in (("query", "Q", "d_k"), ("key", "K", "d_k"), ("value", "V", "d_v")):
        every, width = getattr(module, role).weight.shape
        own = every // inputs.heads
        code = f"attention.{role}.weight[{own} * i : {own} * (i + 1)].T"
        add(f"{role} weight", f"W_i^{letter}", (D, d), (width, own), _("learned"), code)
    for role, letter, length, d in (("query", "Q", n, "d_k"), ("key", "K", m, "d_k"), ("value", "V", m, "d_v")):
        shape = getattr(inputs, role)[0].shape
        about = {"query": _("queries of a head"), "key": _("its keys"), "value": _("its values")}[role]
        add(role, f"{letter} W_i^{letter}", (length, d), shape, about, f"layer.inputs.{role}[i]")
    for name, weight in module.similarity.named_parameters():
        symbol, letters = LEARNED[name]
        add(
            name,
            symbol,
            letters,
            weight.shape,
            _("learned, one for all heads"),
            f"attention.similarity.{name}",
        )
    add("raw", SCORES[type(this.score)], (n, m), done.raw[0].shape, _("scores"), "done.raw[i]")
    if this.masked:
        about = _("the mask: no word sees one after it")
        add("allowed", "M", (n, m), done.allowed[0].shape, about, "done.allowed[i]")
    joined, output = done.output.transpose(0, 1).flatten(1), module.output.weight.T
    call = f"attention(vectors, forward_pass{', memory' if query != memory else ''})"
    add("weights", r"\mathrm{softmax}(\ldots)", (n, m), done.weights[0].shape, _("weights"), "done.weights[i]")
    add("output", r"\mathrm{head}_i", (n, "d_v"), done.output[0].shape, _("values, by their weights"), "done.output[i]")
    code = "done.output.transpose(0, 1).flatten(1)"
    add("joined", r"\mathrm{Concat}(\ldots)", (n, "h d_v"), joined.shape, _("all heads side by side"), code)
    add("output weight", "W^O", ("h d_v", D), output.shape, _("learned"), "attention.output.weight.T")
    shape = (len(joined), output.shape[1])
    add("result", r"\mathrm{MultiHead}(\ldots)", (n, D), shape, _("added to the input"), call)
    return rows


def tensor_table(tensors: Mapping[str, NamedTensor]) -> str:
    """Returns tensors as a table in Markdown."""
    rows = "".join(
        f"\n| ${one.symbol}$ | ${TIMES.join(one.letters)}$ | {dimensions(one.shape)} | {one.about} | `{one.code}` |"
        for one in tensors.values()
    )
    return _("| tensor | size | here | what it is | in the code |\n|-|-|-|-|-|{rows}", rows=rows)


def product_diagram(this: AttentionLayer, tensors: Mapping[str, NamedTensor]) -> html.Markup:
    """Returns the matrix products as rectangles of the sizes of the tensors."""

    def box(name: str, *symbol: object, kind: str = "", transposed: bool = False, pieces: int = 1) -> html.Markup:
        rows, columns = tensors[name].shape[:: -1 if transposed else 1]
        style = f"--rows:{rows};--columns:{columns};--pieces:{pieces}"
        return html.element(
            "div",
            html.element("b", *symbol),
            html.element("i", class_=f"attnviz-{kind or name}", style=style),
            html.element("span", f"{rows} × {columns}"),
            class_="attnviz-tensor",
        )

    def line(sentence: str, *parts: object) -> html.Markup:
        product = html.element("div", *parts, class_="attnviz-row attnviz-tensors")
        return html.note(sentence) + product

    sub, sup, bracket = (partial(html.element, name) for name in ("sub", "sup", "em"))
    query, memory = SYMBOLS[this.use]
    heads = this.layer.inputs.heads
    scores = [box("query", "Q"), box("key", "K", sup("T"), transposed=True)]
    if isinstance(this.score, General):
        scores.insert(1, box("weight", "W", kind="learned"))
    if isinstance(this.score, ScaledDot):
        scores.append(html.join([f"/ √{tensors['key'].shape[1]}"]))
    if isinstance(this.score, Additive):
        scores = [box("raw", "S", kind="weights")]
    masked = " + M" if this.masked else ""
    made = _("The queries of one head; its keys and values are made in the same way")
    if query != memory:
        made = _("The queries of one head; its keys and values are made in the same way, from {memory}", memory=memory)
    weight = box("query weight", "W", sub("i"), sup("Q"), kind="learned")
    output_weight = box("output weight", "W", sup("O"), kind="learned")
    lines = (
        line(
            made,
            *(box("vectors", query, kind="vectors"), weight, "=", box("query", "Q")),
        ),
        line(_("Weights"), "softmax", bracket("("), *scores, masked, bracket(")"), "=", box("weights", "A")),
        line(
            _("Values, by their weights"), box("weights", "A"), box("value", "V"), "=", box("output", "head", sub("i"))
        ),
        line(
            _("All {heads} heads", heads=heads),
            *(box("joined", _("Concat"), kind="output", pieces=heads), output_weight, "="),
            box("result", _("MultiHead"), kind="vectors"),
        ),
    )
    return html.join(lines)


def symbol_legend(this: AttentionLayer, translation: Translation, head: int) -> str:
    """Returns the meaning of the symbols and the names in the code, in Markdown."""
    module, layer = this.code
    return _(
        "$n$ = {english} English words, $m$ = {rows} rows of the decoder. The sizes are those of "
        "the tensors that ran, in both layers. Heads are counted from 0; $i$ is {head}. Within "
        "$\\mathrm{{Attention}}(Q, K, V)$, $Q$ is one head’s $QW_i^Q$, and so are $K$ and $V$. "
        "`attention` is `{module}`, `layer` is `{layer}`, and `done` is "
        "`layer.mechanism(layer.inputs)`.",
        english=len(translation.english),
        rows=len(translation.steps),
        head=head,
        module=module,
        layer=layer,
    )


def compare_with_paper(translator: Translator, this: AttentionLayer) -> str:
    """Returns the differences between this model and the paper's, in Markdown."""
    model, inputs = translator.model, this.layer.inputs.vectors
    d_k, layers = inputs.key.shape[-1], f"{len(model.encoder)} + {len(model.decoder)}"
    unlike = _(UNLIKE.get(VARIANTS[translator.variant], ""))
    return _(
        "**Here** {width}, $h$ = {heads}, $d_k = d_v$ = {d_k}, {layers} layers; in the paper’s base model {paper}."
        "\n\n**As in the paper**, positions are encoded with sine waves, embeddings are multiplied by {root}, and the "
        "output of each attention is added to its input.\n\n**Unlike in the paper**, each layer normalizes its input, "
        "not its output; every learned matrix has a bias; English has an embedding of its own; there is no dropout in "
        "training{unlike}.",
        width=f"${D}$ = {this.module.query.in_features}",
        heads=inputs.heads,
        d_k=d_k,
        layers=layers,
        paper=f"{PAPER['d_model']}, {PAPER['h']}, {PAPER['d_k']}, {PAPER['layers']} + {PAPER['layers']}",
        root=f"$\\sqrt{{{D}}}$",
        unlike=f"; {unlike}" if unlike else "",
    )


def steps_link(translator: Translator, translation: Translation, use: Use, layer: int, head: int) -> html.Markup:
    """Returns a link to all numbers of a head on the Steps page, or why there is none."""
    english = " ".join(translation.english)
    try:
        address = steps_address(english, translator.variant, use, layer, head)
    except ValueError as problem:
        return html.element("p", problem, class_="attnviz-nolink")
    # In a window of its own: this one may be training.
    return html.element(
        "a", _("All numbers of this head, step by step"), class_="attnviz-link", href=address, target="_blank"
    )
