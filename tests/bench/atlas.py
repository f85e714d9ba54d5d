"""An atlas against plain forward passes of the same texts, in the same batches, that return their weights."""

import copy
from functools import partial
from itertools import cycle, islice

import torch

from attnviz.analysis.atlas_part import read_part, written_norms
from attnviz.effects import NEUTRAL_TEXTS
from attnviz.models.smollm2 import smollm2
from attnviz.models.texts import Texts
from tests.bench.measures import in_turn, row, sizes, table

RUNS = 3
SENTENCES = 4  # of each text, which then has about 64 tokens


def atlas() -> None:
    """One table."""
    table(
        "An atlas of SmolLM2, against forwards that return their weights",
        ("texts", "tokens", "forwards ms", "atlas ms", "ratio"),
    )
    model = smollm2()
    eager = copy.deepcopy(model.model)
    eager.set_attn_implementation("eager")

    def forwards(texts: Texts) -> None:
        with torch.no_grad():
            for _numbers, batch in texts.same_shape():
                eager(**batch, output_attentions=True)

    sentences = cycle(NEUTRAL_TEXTS)
    for count in sizes((8, 64)):
        texts = Texts(model, [" ".join(islice(sentences, SENTENCES)) for _ in range(count)])
        norms = written_norms(model, texts)
        tokens = sum(batch["input_ids"].numel() for batch in texts)
        row(count, tokens, *in_turn(partial(forwards, texts), partial(read_part, model, texts, norms=norms), RUNS))
