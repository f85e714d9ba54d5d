"""Texts and pairs of texts as inputs of models, and the names of their tokens."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import grouped
from attnviz.base.language import value_error
from attnviz.base.text import CHARACTERS, check_text, too_long_error
from attnviz.base.token_texts import NUMBER, token_texts, typed_texts, vocabulary_tokens
from attnviz.tracing.forward_arguments import forward_parameters

MOST_TOKENS = 8_192  # of a model that sets itself no limit, or a higher one
GENERATED = 32  # tokens that a decoder goes on by itself


@dataclass(frozen=True)
class Tokens:
    """The names of the tokens of a sequence, which of them are special, and which text each is from."""

    tokens: tuple[str, ...] = ()
    special: tuple[int, ...] = ()
    segments: tuple[int | None, ...] = ()  # 0 or 1 of a pair; None of a token that stands for no text
    spans: tuple[tuple[int, int], ...] = ()  # the characters of its text that each stands for; (0, 0) where unknown
    of_image: tuple[int, ...] = ()  # those that stand for an image: its patches, and what is between them


@dataclass(frozen=True, eq=False)
class TextInputs:
    """Makes a model's inputs from text, with its tokenizer, if there is one."""

    name: str  # of the model, in errors
    model: Any
    tokenizer: Any
    most: int = MOST_TOKENS  # tokens, whatever the model allows
    _names: dict[int, str] = field(default_factory=dict)

    @cached_property
    def limit(self) -> int:
        """The largest number of tokens, by the model's config, its positions and its tokenizer."""
        limits, positions = [self.most], position_limit(self.model)
        if positions is not None:
            limits.append(positions)
        if self.tokenizer is not None:
            limits.append(int(self.tokenizer.model_max_length))
        return min(limits)

    def encode(
        self, text: str, pair: str | None = None, *, as_target: bool = False, has_special: bool = False
    ) -> tuple[dict[str, Tensor], Tokens]:
        """Returns the batch and the tokens of a text or a pair of texts. None are added to a text that has its special
        tokens written in it (`has_special`).

        Raises ValueError for a text without tokens or with too many, and if there is no tokenizer that fits.
        """
        tokenizer, characters = self.tokenizer, CHARACTERS * max(1, self.most // MOST_TOKENS)
        texts = [check_text(part, characters) for part in (text, pair) if part is not None]
        if tokenizer is None:
            raise value_error(
                "{name} has no tokenizer that can be read, so it cannot be given text. Put the "
                "tokenizer.json that belongs to it into its folder.",
                name=self.name,
            )
        encoded = tokenizer(
            **({"text_target": text} if as_target else {"text": text, "text_pair": pair}),
            return_offsets_mapping=tokenizer.is_fast,
            return_special_tokens_mask=True,
            add_special_tokens=not has_special,
            verbose=False,
        )
        return self.inputs(encoded, texts, has_special=has_special)

    def inputs(self, encoded: Any, texts: list[str], *, has_special: bool = False) -> tuple[dict[str, Tensor], Tokens]:
        """Returns the batch and the tokens of what a tokenizer has made of texts. Raises ValueError as `encode`."""
        ids = encoded["input_ids"]
        if len(ids) > self.limit:
            reader = self.name if self.limit < self.most else "attnviz"
            raise too_long_error(len(ids), self.limit, reader)
        marks = self._are_special(ids) if has_special else encoded["special_tokens_mask"]
        special = tuple(i for i, mark in enumerate(marks) if mark)
        if len(special) == len(ids):
            raise value_error("{name} finds no token in this text. Type a word or a sentence.", name=self.name)
        known = getattr(self.model.config.get_text_config(), "vocab_size", None)
        if known is not None and max(ids) >= known:
            raise value_error(
                "The tokenizer of {name} gives the token number {ids}, but the model knows only "
                "{known}. They do not belong together; put the right tokenizer into its folder.",
                name=self.name,
                ids=grouped(max(ids)),
                known=grouped(known),
            )
        names = ("input_ids", "attention_mask", "token_type_ids")
        batch = {name: torch.tensor([encoded[name]]) for name in names if name in encoded}
        batch.setdefault("attention_mask", torch.ones_like(batch["input_ids"]))
        kinds = getattr(self.model.config, "type_vocab_size", 0)
        if "token_type_ids" in batch and (
            "token_type_ids" not in forward_parameters(self.model) or batch["token_type_ids"].max() >= kinds
        ):
            del batch["token_type_ids"]
        return batch, self._tokens(encoded, texts, special)

    def _are_special(self, ids: list[int]) -> list[bool]:
        """Returns which tokens are special wherever they come from; a tokenizer marks only those that it added."""
        alone = [[token] for token in ids]
        texts = zip(self.tokenizer.decode(alone), self.tokenizer.decode(alone, skip_special_tokens=True), strict=True)
        return [bool(text) and not rest for text, rest in texts]

    def _tokens(self, encoded: Any, texts: list[str], special: tuple[int, ...]) -> Tokens:
        """Returns the tokens with their names on the axes."""
        tokenizer, ids = self.tokenizer, encoded["input_ids"]
        segments = (
            encoded.sequence_ids(0) if tokenizer.is_fast else [None if i in special else 0 for i in range(len(ids))]
        )
        spans = [(start, end) for start, end in encoded["offset_mapping"]] if tokenizer.is_fast else [(0, 0)] * len(ids)
        tokens = vocabulary_tokens(tokenizer, ids)
        # A mark for a space that nobody typed claims the first letter after it, which another token stands for.
        spans = [
            (end, end) if not token.text.strip() and texts[0][start:end].strip() else (start, end)
            for token, (start, end) in zip(tokens, spans, strict=True)
        ]
        by_position = dict(enumerate(token_texts(tokens))) | {i: tokens[i].name for i in special}
        for segment, typed in enumerate(texts if tokenizer.is_fast else ()):
            own = [i for i, source in enumerate(segments) if source == segment]
            own_texts = typed_texts([tokens[i] for i in own], typed, [spans[i] for i in own])
            by_position |= zip(own, own_texts, strict=True)
        return Tokens(tuple(by_position[i] for i in range(len(ids))), special, tuple(segments), tuple(spans))

    def word_ids(self, word: str) -> list[int]:
        """Returns the ids of the tokens of a word that the model writes, with a space before it unless it begins with
        one or with a mark."""
        text = word if not word[:1].isalnum() else f" {word}"
        encoded, tokens = self.encode(text, as_target=bool(self.model.config.is_encoder_decoder))
        return [id for i, id in enumerate(encoded["input_ids"][0].tolist()) if i not in tokens.special]

    def token_name(self, token: int) -> str:
        """Returns the word that is this token alone, or else the number of the token after `NUMBER`."""
        if token not in self._names:
            word = str(self.tokenizer.decode([token])).strip(" ")
            try:
                is_typed = not word.startswith(NUMBER) and self.word_ids(word) == [token]
            except ValueError:  # of an empty word, or of a tokenizer that has no token for it
                is_typed = False
            self._names[token] = word if is_typed else f"{NUMBER}{token}"
        return self._names[token]

    @torch.no_grad()
    def decoder_inputs(
        self, batch: dict[str, Tensor], target: str | None, *, generated: bool = True
    ) -> tuple[Tensor, Tokens]:
        """Returns the token ids (1, tokens) of the decoder's input, and their names.

        They are the start token and the `target`; without a target, the start token and what the decoder generates
        greedily, if `generated`.
        """
        start = self.start_token()
        if target is not None:
            ids, typed = self.encode(target, as_target=True)
            count = len(typed.tokens)
            count -= count - 1 in typed.special  # without the tokenizer's end token, which the decoder predicts
            written = ids["input_ids"][0].tolist()[:count]
            names, special = typed.tokens[:count], tuple(i + 1 for i in typed.special if i < count)
        else:
            written = self._generate(batch, start) if generated else []
            names, special = tuple(token.text for token in vocabulary_tokens(self.tokenizer, written)), ()
        first = vocabulary_tokens(self.tokenizer, [start])[0].name
        tokens = Tokens((first, *names), (0, *special), (None, *(0 for _ in written)))
        return torch.tensor([[start, *written]]), tokens

    def start_token(self) -> int:
        """Returns the id of the token that a decoder starts with. Raises ValueError if the model does not say."""
        configs = (self.model.config, getattr(self.model, "generation_config", None))
        for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
            for config in configs:
                number = getattr(config, name, None)
                if isinstance(number, int):
                    return number
        raise value_error("{name} does not say with which token its decoder starts.", name=self.name)

    def _generate(self, batch: dict[str, Tensor], start: int) -> list[int]:
        """Returns greedily generated tokens, up to the end token or GENERATED tokens."""
        settings = getattr(self.model, "generation_config", None) or self.model.config
        ends = settings.eos_token_id if isinstance(settings.eos_token_id, list) else [settings.eos_token_id]
        forced, padding = getattr(settings, "forced_bos_token_id", None), getattr(settings, "pad_token_id", None)
        mask = batch["attention_mask"]
        encoded = self.model.get_encoder()(input_ids=batch["input_ids"], attention_mask=mask)
        written: list[int] = [] if forced is None else [forced]
        while len(written) < min(GENERATED, self.limit - 1):
            ids = torch.tensor([[start, *written]])
            logits = self.model(encoder_outputs=encoded, attention_mask=mask, decoder_input_ids=ids).logits[0, -1]
            if padding is not None:
                logits[padding] = -torch.inf
            token = int(logits.argmax())
            if token in ends:
                break
            written.append(token)
        return written


def position_limit(model: Any) -> int | None:
    """Returns the largest number of tokens that a model has positions for, by its config and its embeddings; None if
    they set no limit."""
    config = model.config.get_text_config()
    named = (getattr(config, name, None) for name in ("max_position_embeddings", "n_positions", "max_target_positions"))
    limits = [most for most in named if isinstance(most, int) and most > 0]
    for name, module in model.named_modules():
        # RoBERTa and its kin count positions from the padding's number on.
        embedding = "position_embeddings" in name and isinstance(module, torch.nn.Embedding)
        if embedding and module.padding_idx is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    return min(limits, default=None)
