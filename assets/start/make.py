"""Writes writing.json beside this file, what the start page plays: SmolLM2 goes on with a sentence, and one of its
heads.

    python -m assets.start.make
"""

import json
from pathlib import Path

import numpy as np

from attnviz.analysis.head_maps import head_map
from attnviz.pages.catalogue import read_state
from attnviz.pages.write.state import WriteState

FILE = Path(__file__).with_name("writing.json")
PROMPT, LENGTH = "The animal didn't cross the street because it was too", 6
LAYER, HEAD = 13, 8  # which looks at the subject of the sentence
LINK = {"prompt": PROMPT, "length": str(LENGTH), "layer": f"layer {LAYER}", "head": f"Head {HEAD}"}
CANDIDATES = 3
DECIMALS = 4


def recording() -> dict[str, object]:
    """Returns the link of Write that shows the same, the number of the head, the tokens, how many of them are the
    prompt, the weights of each row up to its own token, and for each written token the likeliest ones with their
    probabilities."""
    state = read_state("write", LINK.items())
    assert isinstance(state, WriteState)
    text, selection = state.text, state.selection
    layer = selection.layer
    weights = head_map(layer.inputs, layer.mechanism, selection.head)  # type: ignore[arg-type]
    rows = [*np.asarray(weights.tolist()).round(DECIMALS), np.array([])][: len(text.tokens)]
    return {
        "link": LINK,
        "head": HEAD,
        "tokens": [*text.tokens],
        "read": text.prompt_length,
        "weights": [row[: i + 1].tolist() for i, row in enumerate(rows)],
        "candidates": [
            [[one.token, round(one.probability, DECIMALS)] for one in step.alternatives[:CANDIDATES]]
            for step in text.steps
        ],
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(recording(), ensure_ascii=False) + "\n", encoding="utf-8")
