"""The names of layers and parts on the screen, and what each stage does, in a sentence."""

from attnviz.lessons.activations import Activation, Sublayer
from attnviz.masks import Causal, Mask

TITLES = {
    "words": "Words",
    "positions": "Positions",
    "segments": "Segments",
    "norm": "Norm",
    "queries": "Queries",
    "keys": "Keys",
    "values": "Values",
    "scores": "Scores",
    "weights": "Weights",
    "heads": "Head output",
    "concat": "Concat",
    "output": "Output",
    "hidden": "Hidden",
    "sum": "Add",
    "vectors": "Memory",
    "logits": "Logits",
}
SENTENCES = {
    "words": "Each word is looked up in a table: a learned vector.",
    "positions": "Each position has a vector too, so that the order of the words is not lost.",
    "segments": "One more vector says which text a token is from. Here there is one text.",
    "norm": "Each row is brought to mean 0 and spread 1, then scaled by learned numbers.",
    "queries": "A learned matrix makes a query of each row: what this word asks for.",
    "keys": "Another matrix makes a key of each row: what this word can be found by.",
    "values": "A third matrix makes a value of each row: what this word has to give.",
    "scores": "Each query is compared with each key by a dot product, divided by √d_k.",
    "weights": "Softmax turns each row of scores into weights that add up to 1.",
    "heads": "Each row is a sum of the values, each times its weight.",
    "concat": "The outputs of all heads stand side by side again.",
    "output": "A learned matrix mixes what the heads found.",
    "hidden": "Each row by itself goes into a wider space, and negative numbers become 0.",
    "sum": "It is added to what came in: the residual connection.",
    "vectors": "The encoder’s last vectors: keys and values of the decoder come from here.",
    "logits": "The last row is compared with the vector of each French word.",
}
KINDS = {
    "embedding": "Words and positions",
    "attention": "Self-attention",
    "cross": "Encoder–decoder attention",
    "network": "MLP",
}


def layer_title(name: str) -> str:
    """Returns the title of a layer, such as “Encoder layer 0”."""
    stack, _, rest = name.partition(" ")
    if rest == "embedding":
        return f"{stack.capitalize()} input"
    return f"{stack.capitalize()} layer {rest}" if rest else {"memory": "Memory", "output": "Next word"}[name]


def sublayer_title(sublayer: Sublayer) -> str:
    """Returns the title of a sublayer in its layer."""
    return KINDS.get(sublayer.kind) or layer_title(sublayer.name)


def part_title(activation: Activation) -> str:
    """Returns the title of a part, such as “Weights”."""
    if activation.part == "output":
        return "Output" if activation.sublayer.endswith("network") else "Output Wᴼ"
    return TITLES[activation.part]


def part_sentence(activation: Activation) -> str:
    """Returns a sentence about what a part does."""
    if activation.part == "output" and activation.sublayer.endswith("network"):
        return "Another matrix brings each row back to the width of the model."
    if activation.part == "hidden" and "GELU" in activation.formula:
        return "Each row by itself goes into a wider space, and negative numbers become almost 0 (GELU)."
    return SENTENCES[activation.part]


def look_sentence(sublayer: Sublayer, mask: Mask) -> str:
    """Returns where the words of an attention sublayer look."""
    if sublayer.kind == "cross":
        return "Each French word looks at the English words: orange lines, the thicker the more."
    if sublayer.stack == "encoder":
        return "Each word looks at all words and takes from them: blue lines, the thicker the more."
    if mask == Causal():
        return "Each French word looks at itself and at the words before it. The future is masked."
    return "Each French word looks where the changed mask lets it."
