"""A text that SmolLM2 writes with its attention in every step, against `generate`, which writes the same tokens."""

from unittest.mock import patch

import torch
from transformers import GenerationConfig

from attnviz.models.generation import Step, writing
from attnviz.models.smollm2 import smollm2
from tests.bench.measures import in_turn, is_short, row, sizes, table

PROMPT, NEW = "The capital of France is", 2 if is_short() else 128


def written() -> None:
    """The table: `generate` and `writing` in turn, and what a step takes beyond it."""
    table(f"{NEW} tokens written, SmolLM2", ("prompt", "generate ms", "writing ms", "ratio", "own ms/token"))
    loaded = smollm2()
    model, [prompt] = loaded.model, torch.tensor([loaded.tokenizer(PROMPT)["input_ids"]])
    with patch.object(model, "generation_config", GenerationConfig(pad_token_id=0)):  # no token ends the text
        for tokens in sizes((5, 512)):
            ids = prompt.repeat(tokens // len(prompt) + 1)[None, :tokens]

            def generated(ids: torch.Tensor = ids) -> torch.Tensor:
                return model.generate(
                    ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=NEW, min_new_tokens=NEW
                )

            def steps(ids: torch.Tensor = ids) -> list[Step]:
                return [*writing(model, loaded.tokenizer, ids, NEW)]

            assert [step.token_id for step in steps()] == generated()[0, tokens:].tolist()
            plain, own, ratio = in_turn(generated, steps, runs=5)
            row(tokens, plain, own, ratio, (own - plain) / NEW)
