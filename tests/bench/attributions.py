"""Sums over what wrote to the residual stream, against a forward pass of the model."""

from functools import partial

import torch

from attnviz.attribution import LogitDifference, Score, attribute
from attnviz.models.minilm import minilm
from attnviz.models.smollm2 import smollm2
from tests.bench.measures import in_turn, row, sizes, table


def attributions() -> None:
    """The table: a first question, with its two forward passes, and further ones of the same run."""
    table("A score or a logit as a sum", ("model", "tokens", "forward ms", "first question", "further ones"))
    for loaded, name in ((minilm(), "MiniLM"), (smollm2(), "SmolLM2")):
        for tokens in sizes((16, 128, 512)):
            batch = {"input_ids": torch.arange(100, 100 + tokens)[None]}
            score = Score(3, 1, tokens - 1, 1, over="mean")
            first = attribute(loaded.model, batch, score)
            further = LogitDifference(5, 7) if loaded.outputs == "next token" else score

            forward = partial(_forward, loaded.model, batch)
            plain, _, ratio = in_turn(forward, partial(attribute, loaded.model, batch, score), runs=5)
            _, _, again = in_turn(forward, partial(first.attribute, further), runs=5)
            row(name, tokens, plain, ratio, again)


@torch.no_grad()
def _forward(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> object:
    return model(**batch)
