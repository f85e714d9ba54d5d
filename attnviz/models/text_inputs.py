"""A text, or a pair of texts, as what a model takes and what a person reads on the axes."""

import inspect
import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attnviz.text import checked, shortened, too_long

if TYPE_CHECKING:
    import attnviz.models.model

MOST_TOKENS = 4_096  # of a model that sets itself no limit, or a higher one
GENERATED = 32  # tokens that a decoder goes on by itself


@dataclass(frozen=True)
class Tokens:
    """What the tokens of a sequence are called, which of them a tokenizer added, and which text each is from."""

    tokens: tuple[str, ...] = ()
    special: tuple[int, ...] = ()
    segments: tuple[int | None, ...] = ()  # 0 or 1 of a pair; None of a token that stands for no text


@dataclass(frozen=True, eq=False)
class Reading:
    """One example: the batch that the model takes, and what a person reads on the axes."""

    batch: dict[str, Tensor]
    source: Tokens = Tokens()  # of the text, or of a pair of texts one after the other
    target: Tokens | None = None  # of what the decoder has written so far, where there is one
    patches: tuple[str, ...] = field(default=(), repr=False)  # of the picture, where there is one


def taken(model: Any) -> tuple[str, ...]:
    """The names of what a model's forward takes."""
    return tuple(inspect.signature(model.forward).parameters)


def reads(model: Any) -> str:
    """What a model is to be given: "text", "picture" or "text and picture"."""
    names, config = taken(model), model.config
    if "input_ids" not in names:
        return "picture"
    # Two towers, as CLIP has them, or a picture in one row with the text, as ViLT has it, need both; a language model
    # that can also see has a token that stands for a picture, and reads without one.
    towers = hasattr(config, "text_config") and hasattr(config, "vision_config")
    in_a_row = hasattr(config, "image_size") and hasattr(config, "patch_size")
    sees = any(hasattr(config, name) for name in ("image_token_id", "image_token_index"))
    return "text and picture" if (towers or in_a_row) and not sees and "pixel_values" in names else "text"


def limit(model: Any, tokenizer: Any) -> int:
    """How many tokens a model reads at most, as its config, its table of positions and its tokenizer say."""
    limits = [MOST_TOKENS]
    config = model.config.get_text_config()
    for name in ("max_position_embeddings", "n_positions", "max_target_positions"):
        most = getattr(config, name, None)
        if isinstance(most, int) and most > 0:
            limits.append(most)
    for name, module in model.named_modules():
        # RoBERTa and its kin count positions from the padding's number on.
        if "position_embeddings" in name and isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
            limits.append(module.num_embeddings - module.padding_idx - 1)
    if tokenizer is not None:
        limits.append(int(tokenizer.model_max_length))
    return min(limits)


def read(model: "attnviz.models.model.Model", text: str, pair: str | None, image: bytes | None = None) -> Reading:
    """What a model is given for a text, a pair of texts or a picture; a decoder's target comes later.

    Raises ValueError, in words, for what it cannot read.
    """
    batch: dict[str, Tensor] = {}
    source = Tokens()
    patches: tuple[str, ...] = ()
    if "picture" in model.reads:
        if model.view is None:
            raise ValueError(f"{model.name} does not say how large the pictures are that it sees, up to 4,096 pixels.")
        batch["pixel_values"] = model.view.pixels(image)
        if model.reads == "picture" or hasattr(model.model.config, "text_config"):  # the patches stand by themselves
            patches = model.view.patches
    elif image is not None:
        raise ValueError(f"{model.name} reads text, and sees no pictures.")
    if "text" in model.reads:
        ids, source = _cut(model, text, None if model.decodes else pair)
        batch |= ids
    elif text.strip() or pair:
        raise ValueError(f"{model.name} sees pictures, and reads no text.")
    return Reading(batch, source, patches=patches)


@torch.no_grad()
def with_target(model: "attnviz.models.model.Model", given: Reading, pair: str | None) -> Reading:
    """The same with what the decoder has written so far: the text given, or what it writes by itself."""
    if not model.decodes:
        return given
    start = _start(model)
    if pair is not None:
        ids, typed = _cut(model, pair, None, as_target=True)
        count = len(typed.tokens)
        count -= count - 1 in typed.special  # the end, if the tokenizer adds it, is what the decoder is still to say
        written = ids["input_ids"][0].tolist()[:count]
        shown, special = typed.tokens[:count], tuple(i + 1 for i in typed.special if i < count)
    else:
        written = _greedy(model, given, start) if model.outputs == "next token" else []
        shown, special = tuple(decoded(model.tokenizer, token) for token in written), ()
    first = _raw(model.tokenizer, start)
    target = Tokens((first, *shown), (0, *special), (None, *(0 for _ in written)))
    batch = given.batch | {"decoder_input_ids": torch.tensor([[start, *written]])}
    return replace(given, batch=batch, target=target)


def as_typed(text: str, spans: list[tuple[int, int]], names: list[str]) -> tuple[str, ...]:
    """What the reader typed where each token stands, with its case, accents and marks.

    A token that stands for no text, such as [CLS], has the name given; tokens that share the same characters have it
    beside them. What the tokenizer dropped and is no space, such as an accent written as a character of its own,
    belongs to the token before.
    """
    counts = Counter(spans)
    covered = sorted({i for start, end in spans for i in range(start, end)} | {len(text)})
    shown = []
    for (start, end), name in zip(spans, names, strict=True):
        dropped = re.match(r"\S*", text[end : covered[bisect_left(covered, end)]])
        whole = text[start:end] + (dropped.group() if dropped else "")
        whole = whole.strip() or whole
        shown.append(name if start == end else f"{whole}·{name}" if counts[start, end] > 1 else whole)
    return tuple(map(shortened, shown))


def _cut(
    model: "attnviz.models.model.Model", text: str, pair: str | None, as_target: bool = False
) -> tuple[dict[str, Tensor], Tokens]:
    """A text cut into tokens: what the model takes of it, and what they are called."""
    tokenizer, texts = model.tokenizer, [checked(part) for part in (text, pair) if part is not None]
    if tokenizer is None:
        raise ValueError(
            f"{model.name} has no tokenizer that can be read, so it cannot be given text. "
            "Put the tokenizer.json that belongs to it into its folder."
        )
    encoded = tokenizer(
        **({"text_target": text} if as_target else {"text": text, "text_pair": pair}),
        return_tensors="pt",
        return_offsets_mapping=tokenizer.is_fast,
        return_special_tokens_mask=True,
        verbose=False,
    )
    ids = encoded["input_ids"][0].tolist()
    if len(ids) > model.limit:
        reader = model.name if model.limit < MOST_TOKENS else "attnviz"
        raise too_long(len(ids), model.limit, reader)
    special = tuple(i for i, mark in enumerate(encoded["special_tokens_mask"][0].tolist()) if mark)
    if len(special) == len(ids):
        raise ValueError(f"{model.name} finds no token in this text. Type a word or a sentence.")
    known = getattr(model.model.config.get_text_config(), "vocab_size", None)
    if known is not None and max(ids) >= known:
        raise ValueError(
            f"The tokenizer of {model.name} gives the token number {max(ids):,}, but the model knows only {known:,}. "
            "They do not belong together; put the right tokenizer into its folder."
        )
    segments = encoded.sequence_ids(0) if tokenizer.is_fast else [None if i in special else 0 for i in range(len(ids))]
    spans = (
        [tuple(span) for span in encoded["offset_mapping"][0].tolist()] if tokenizer.is_fast else [(0, 0)] * len(ids)
    )
    raw = tokenizer.convert_ids_to_tokens(ids)
    # A mark for a space that nobody typed claims the first letter after it, which another token stands for.
    spans = [
        (end, end) if not name.strip("▁") and text[start:end].strip() else (start, end)
        for name, (start, end) in zip(raw, spans, strict=True)
    ]
    names = [raw[i] if i in special else decoded(tokenizer, ids[i]) for i in range(len(ids))]
    # Where tokens share characters, it is the raw names that tell them apart.
    names = [raw[i] if spans[i][1] > spans[i][0] else name for i, name in enumerate(names)]
    shown = dict(enumerate(names))
    for segment, typed in enumerate(texts):
        own = [i for i, of in enumerate(segments) if of == segment]
        shown |= zip(own, as_typed(typed, [spans[i] for i in own], [names[i] for i in own]), strict=True)
    batch = {name: encoded[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in encoded}
    batch.setdefault("attention_mask", torch.ones_like(batch["input_ids"]))
    kinds = getattr(model.model.config, "type_vocab_size", 0)
    if "token_type_ids" in batch and (
        "token_type_ids" not in taken(model.model) or batch["token_type_ids"].max() >= kinds
    ):
        del batch["token_type_ids"]
    return batch, Tokens(tuple(shown[i] for i in range(len(ids))), special, tuple(segments))


def decoded(tokenizer: Any, token: int) -> str:
    """A token by itself, as text; by the tokenizer's own name where it is no whole character."""
    text = tokenizer.decode([token])
    return shortened(text.strip() or text) if text and "\ufffd" not in text else _raw(tokenizer, token)


def _raw(tokenizer: Any, token: int) -> str:
    """What the tokenizer calls a token; a model may know more of them than its tokenizer."""
    return tokenizer.convert_ids_to_tokens(token) or f"[{token}]"


def _start(model: "attnviz.models.model.Model") -> int:
    configs = (model.model.config, getattr(model.model, "generation_config", None))
    for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
        for config in configs:
            number = getattr(config, name, None)
            if isinstance(number, int):
                return number
    raise ValueError(f"{model.name} does not say with which token its decoder starts.")


def _greedy(model: "attnviz.models.model.Model", given: Reading, start: int) -> list[int]:
    """What the decoder writes when it takes the likeliest token each time, up to the end or GENERATED tokens."""
    settings = getattr(model.model, "generation_config", None) or model.model.config
    ends = settings.eos_token_id if isinstance(settings.eos_token_id, list) else [settings.eos_token_id]
    forced, padding = getattr(settings, "forced_bos_token_id", None), getattr(settings, "pad_token_id", None)
    mask = given.batch["attention_mask"]
    encoded = model.model.get_encoder()(input_ids=given.batch["input_ids"], attention_mask=mask)
    written: list[int] = [] if forced is None else [forced]
    while len(written) < min(GENERATED, model.limit - 1):
        ids = torch.tensor([[start, *written]])
        logits = model.model(encoder_outputs=encoded, attention_mask=mask, decoder_input_ids=ids).logits[0, -1]
        if padding is not None:
            logits[padding] = -torch.inf
        token = int(logits.argmax())
        if token in ends:
            break
        written.append(token)
    return written
