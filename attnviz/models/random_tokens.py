"""Random tokens that are repeated: the text on which induction heads are measured."""

import torch
from torch import Tensor

from attnviz.base.language import value_error
from attnviz.base.token_texts import vocabulary_tokens
from attnviz.models.text_inputs import TextInputs, Tokens

REPEATED = 50  # tokens
CANDIDATES = 1_000  # ids; the first REPEATED of them that stand for text are taken


def repeated_random_tokens(
    inputs: TextInputs, seed: int, *, decoder: bool
) -> tuple[dict[str, Tensor], Tokens, Tokens | None]:
    """Returns a batch of random tokens of the vocabulary, twice in the same order, with the names of the tokens, and of
    those that the decoder reads.

    There are REPEATED different tokens, or as many as the model can read twice, between the special tokens that the
    tokenizer puts around a text. A `decoder` beside an encoder reads the same after its start token, or other tokens if
    its vocabulary is another one. Olsson et al.
    2022, "In-context Learning and Induction Heads". Raises ValueError if the model has no tokenizer, or reads fewer
    than two tokens twice.
    """
    encoded, example = inputs.encode("a")
    ids = encoded["input_ids"][0].tolist()
    text = [i for i in range(len(ids)) if i not in example.special]
    before, after = ids[: text[0]], ids[text[-1] + 1 :]
    start = [inputs.start_token()] if decoder else []
    count = min(REPEATED, (inputs.limit - max(len(before) + len(after), len(start))) // 2)
    once = _random_ids(inputs, seed, exclude={*ids})[: max(0, count)]
    if len(once) < 2:
        raise value_error("{name} reads too few tokens to repeat random ones.", name=inputs.name)
    batch = {"input_ids": torch.tensor([[*before, *once, *once, *after]])}
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    source, target = _tokens(inputs, before, [*once, *once], after), None
    if decoder:
        once = _random_ids(inputs, seed, exclude={*ids}, is_target=True)[:count]
        batch["decoder_input_ids"] = torch.tensor([[*start, *once, *once]])
        target = _tokens(inputs, start, [*once, *once], [])
    return batch, source, target


def _tokens(inputs: TextInputs, before: list[int], text: list[int], after: list[int]) -> Tokens:
    count, end = len(before) + len(text) + len(after), len(before) + len(text)
    special = (*range(len(before)), *range(end, count))
    names = vocabulary_tokens(inputs.tokenizer, [*before, *text, *after])
    return Tokens(
        tuple(one.name if i in special else one.text for i, one in enumerate(names)),
        special,
        tuple(None if i in special else 0 for i in range(count)),
    )


def _random_ids(inputs: TextInputs, seed: int, exclude: set[int], *, is_target: bool = False) -> list[int]:
    """Returns different ids of tokens that the tokenizer knows and that the config does not call special; of the
    target those of the decoder, where it has other tokens than the encoder."""
    size = inputs.model.get_input_embeddings().weight.shape[0]
    drawn = torch.randperm(size, generator=torch.Generator().manual_seed(seed))[:CANDIDATES].tolist()
    config = inputs.model.config.get_text_config().to_dict()
    named = [value for name, value in config.items() if name.endswith("_token_id")]
    exclude = exclude | {one for value in named for one in (value if isinstance(value, list) else [value])}
    if (target_ids := getattr(inputs.tokenizer, "target_ids", None)) is not None:
        drawn = [id for id in drawn if (id in target_ids) == is_target]
    names = inputs.tokenizer.convert_ids_to_tokens(drawn)
    return [one for one, name in zip(drawn, names, strict=True) if name is not None and one not in exclude]
