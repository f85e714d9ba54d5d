"""The fields of trace.json: what each holds, and what is read where it is left out."""

from dataclasses import dataclass
from typing import Any

from attnviz.inputs import WHOLE
from attnviz.layer import Fidelity, Kind

FORMAT, VERSION = "attnviz trace", 1
MOST_BYTES = 48 << 20  # of trace.json, where a million tokens take about 16
MOST_LAYERS = 2_048
MOST_AXES = 2 * MOST_LAYERS
MOST_TOKENS = 1 << 20  # as many positions as masks are made for
MOST_MISSING = 4_096
MOST_BIASES = 64
LONGEST_SENTENCE = 2_000
NEEDED: Any = object()


@dataclass(frozen=True)
class ManifestField:
    """A field of an object in trace.json."""

    name: str
    holds: str  # the type and the limits, after “Give”
    meaning: str
    default: Any = NEEDED

    @property
    def is_needed(self) -> bool:
        return self.default is NEEDED


def _tokens(items: str) -> str:
    return f"a list of at most {MOST_TOKENS:,} {items}"


SENTENCE = f"a text of at most {LONGEST_SENTENCE:,} characters"
TRACE = (
    ManifestField("format", f'"{FORMAT}"', "what the file is"),
    ManifestField("version", f"{VERSION}", "the version of the format; a later one is refused"),
    ManifestField("axes", f"a list of at most {MOST_AXES:,} axes", "the tokens, once for all layers that share them"),
    ManifestField("layers", f"a list of at most {MOST_LAYERS:,} layers", "the layers, in the order in which they ran"),
    ManifestField("model", SENTENCE, "the name of the model", ""),
    ManifestField("missing", f"a list of at most {MOST_MISSING:,} sentences", "what is not shown, and why", []),
    ManifestField("whole", "true or false", "false while a capture runs, which is then reported", True),
)
AXIS = (
    ManifestField("tokens", _tokens("texts"), "the token at each position, as it is read on the axis"),
    ManifestField("special", _tokens("positions"), "the tokens that a tokenizer added, such as [CLS]", []),
    ManifestField("ids", _tokens("whole numbers"), "the id of each token, or none", []),
    ManifestField(
        "grid",
        "a list of grids, one grid or null",
        "where the patches of each image, tile or frame are",
        None,
    ),
)
GRID = (
    ManifestField("rows", "a whole number", "the rows of the image's patches"),
    ManifestField("columns", "a whole number", "their columns"),
    ManifestField("positions", _tokens("positions"), "the position of each patch among the tokens, row by row"),
    ManifestField(
        "box",
        "a list of 4 numbers",
        "left, top, right and bottom of the grid, as fractions of the image",
        [*WHOLE],
    ),
    ManifestField("image", "a whole number", "the place of the image among those that the model is given", 0),
    ManifestField("tile", "a whole number or null", "the place among the tiles or frames of the image", None),
)
LAYER = (
    ManifestField("file", '"layer-0000.safetensors", with 4 to 6 digits', "the file of its tensors, in the folder"),
    ManifestField(
        "kind", " or ".join(f'"{kind}"' for kind in Kind),
        "whether its keys are the tokens of its queries, these up to the query, or other tokens",
    ),
    ManifestField("id", "an id or null", "its name in menus; null: “layer” and its number in the list", None),
    ManifestField("queries", "the number of an axis, from 0", "the tokens of its queries", 0),
    ManifestField("keys", "the number of an axis, or null", "the tokens of its keys; null: those of its queries", None),
    ManifestField(
        "mechanism", "a mechanism or null",
        "how weights are computed from queries and keys; null: scaled dot product, no mask, softmax", None,
    ),
    ManifestField(
        "fidelity", ", ".join(f'"{fidelity}"' for fidelity in Fidelity) + " or null",
        "how sure the layer is to have the model's own weights; null: nothing was compared", None,
    ),
    ManifestField("comparison", SENTENCE, "what was compared, and how exactly", ""),
    ManifestField("locked_reason", SENTENCE, "why the mechanism cannot be changed; empty: it can", ""),
    ManifestField("leak", SENTENCE, "which keys have weight that the model's mask meant to forbid", ""),
    ManifestField(
        "tensors", "an object or null",
        "the type and shape of each tensor by its name, compared with those in the file; null: not compared", None,
    ),
)  # fmt: skip
ID = (
    ManifestField("stack", "a text", "such as “encoder”, “decoder” or “vision”", "layer"),
    ManifestField("index", "a whole number, a text or null", "the number in the stack, from 0", None),
    ManifestField("cross", "true or false", "whether the name ends in “cross”", False),
    ManifestField("sub_indices", "a list of whole numbers", "further numbers, as in “encoder 1.2”", []),
    ManifestField("occurrence", "a whole number or null", "which run of the same module, from 0", None),
)
MECHANISM = (
    ManifestField("score", "a part", "what compares a query with a key", {"name": "ScaledDot"}),
    ManifestField("biases", f"a list of at most {MOST_BIASES} parts", "what is added to the scores, in this order", []),
    ManifestField("mask", "a text in the language of masks, or a table", "which keys a query may attend to", "full"),
    ManifestField("normalizer", "a part", "what turns the scores of a row into weights", {"name": "Softmax"}),
)
OBJECTS = {"trace.json": TRACE, "axis": AXIS, "grid": GRID, "layer": LAYER, "id": ID, "mechanism": MECHANISM}
