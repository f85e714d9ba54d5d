"""The names of layers and parts on the screen, and what each stage does, in a sentence."""

from attnviz.base.language import N_, _
from attnviz.pages.transformer.activation import Activation, Sublayer

TITLES = {
    "words": N_("Words"),
    "positions": N_("Positions"),
    "segments": N_("Segments"),
    "norm": N_("Norm"),
    "queries": N_("Queries"),
    "normed queries": N_("Normed Q"),
    "rotated queries": N_("Rotated Q"),
    "keys": N_("Keys"),
    "normed keys": N_("Normed K"),
    "rotated keys": N_("Rotated K"),
    "values": N_("Values"),
    "scores": N_("Scores"),
    "weights": N_("Weights"),
    "heads": N_("Head output"),
    "concat": N_("Concat"),
    "output": N_("Output"),
    "output norm": N_("Norm"),
    "gate": N_("Gate"),
    "up": N_("Up-projection"),
    "hidden": N_("Hidden units"),
    "sum": N_("Add"),
    "vectors": N_("Memory"),
    "logits": N_("Logits"),
}
SENTENCES = {
    "words": N_("Each word is looked up in a table: a learned vector."),
    "positions": N_("Each position has a vector too, so that the order of the words is not lost."),
    "segments": N_("One more vector says which text a token is from. Here there is one text."),
    "norm": N_("Each row is normalized to mean 0 and spread 1, then scaled by learned numbers."),
    "queries": N_("A learned matrix makes a query of each row: what this word asks for."),
    "normed queries": N_("The queries of each head are normalized, and scaled by learned numbers."),
    "rotated queries": N_(
        "Pairs of numbers are rotated by angles that grow with the position (RoPE): scores depend on how far apart "
        "tokens are."
    ),
    "keys": N_("Another matrix makes a key of each row: what this word can be found by."),
    "normed keys": N_("The keys of each head are normalized, and scaled by learned numbers."),
    "rotated keys": N_("Keys are rotated like queries: by angles that grow with the position (RoPE)."),
    "values": N_("A third matrix makes a value of each row: what this word has to give."),
    "scores": N_("Each query is compared with each key by a dot product, divided by √d_k."),
    "weights": N_("Softmax turns each row of scores into weights that add up to 1."),
    "heads": N_("Each row is a sum of the values, each times its weight."),
    "concat": N_("The outputs of all heads are placed side by side again."),
    "output": N_("A learned matrix mixes what the heads found."),
    "output norm": N_("What is added is normalized first, then scaled by learned numbers."),
    "gate": N_("A learned matrix makes a gate of each row; negative numbers become almost 0 (SiLU)."),
    "up": N_("Another matrix takes each row into the same wider space."),
    "hidden": N_("Each row by itself goes into a wider space, and negative numbers become 0."),
    "sum": N_("It is added to what came in: the residual connection."),
    "vectors": N_("The encoder’s last vectors: keys and values of the decoder come from here."),
    "logits": N_("The last row is compared with the vector of each token of the vocabulary."),
}
KINDS = {
    "embedding": N_("Words and positions"),
    "attention": N_("Self-attention"),
    "cross": N_("Encoder–decoder attention"),
    "network": N_("MLP"),
}


def layer_title(name: str) -> str:
    """Returns the title of a layer, such as “Encoder layer 0”."""
    stack, rest = (name.partition(" ")[i] for i in (0, 2))
    if rest == "embedding":
        return _("{stack} input", stack=_(stack.capitalize()))
    return (
        _("{stack} layer {layer}", stack=_(stack.capitalize()), layer=rest)
        if rest
        else {"memory": _("Memory"), "output": _("Next word")}[name]
    )


def sublayer_title(sublayer: Sublayer) -> str:
    """Returns the title of a sublayer in its layer."""
    if sublayer.kind == "embedding" and len(sublayer.activations) == 1:
        return _("Words")
    return _(KINDS.get(sublayer.kind, "")) or layer_title(sublayer.name)


def part_title(activation: Activation) -> str:
    """Returns the title of a part, such as “Weights”."""
    if activation.part == "output":
        return _("Output") if activation.sublayer.endswith("network") else _("Output Wᴼ")
    return _(TITLES[activation.part])


def part_sentence(activation: Activation) -> str:
    """Returns a sentence about what a part does."""
    if activation.part == "output" and activation.sublayer.endswith("network"):
        return _("Another matrix brings each row back to the width of the model.")
    if activation.part == "norm" and "RMSNorm" in activation.formula:
        return _("Each row is divided by its root mean square, then scaled by learned numbers.")
    if activation.part == "gate" and "SiLU" not in activation.formula:
        return _("A learned matrix makes a gate of each row; negative numbers become almost 0.")
    if activation.operation == "product":
        return _("Each number is multiplied by that of the gate, which decides what passes.")
    if activation.shared > 1 and activation.part in ("keys", "values"):
        sentence = _(SENTENCES[activation.part])
        return sentence + " " + _("Here {count} heads in a row share them.", count=activation.shared)
    if activation.part == "hidden" and "GELU" in activation.formula:
        return _("Each row by itself goes into a wider space, and negative numbers become almost 0 (GELU).")
    return _(SENTENCES[activation.part])


def look_sentence(sublayer: Sublayer) -> str:
    """Returns where the tokens of an attention sublayer look."""
    if sublayer.kind == "cross":
        return _("Each token of the decoder looks at those of the encoder: orange lines, the thicker the more.")
    if sublayer.stack == "encoder":
        return _("Each word looks at all words and takes from them: blue lines, the thicker the more.")
    return _("Each token looks at itself and at the tokens before it. The future is masked.")
