"""Text that a model writes token by token, with its attention at each step."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Any

import torch
from torch import Tensor

from attnviz.base.formatting import grouped, short_repr
from attnviz.base.language import value_error
from attnviz.base.text import too_long_error
from attnviz.base.token_texts import VocabularyToken, token_texts, vocabulary_tokens
from attnviz.models.interventions import AnyIntervention, Intervention, PartIntervention, ablated_heads, check_places
from attnviz.models.sampling import Sampler, check_count
from attnviz.models.text_inputs import position_limit
from attnviz.trace import Trace
from attnviz.tracing.forward_arguments import forward_parameters
from attnviz.tracing.generation_passes import GenerationPasses
from attnviz.tracing.layer_naming import AxisTokens
from attnviz.tracing.run_changes import zero_heads

MOST_NEW_TOKENS = 1 << 20
LIKELY_TOKENS = 512  # for which there is memory from the start; more are copied into larger tensors
# What a model's own generation config does not decide: tokens are chosen one by one, by the arguments of `writing`, and
# nothing else is returned. How keys are cached, or guessed tokens are checked, changes no token.
CHOICES = {
    "do_sample": False, "num_beams": 1, "num_beam_groups": 1, "num_return_sequences": 1, "use_cache": True,
    "cache_implementation": None, "cache_config": None, "max_cache_len": None, "return_dict_in_generate": False,
    "output_attentions": False, "output_hidden_states": False, "output_scores": False, "output_logits": False,
    "max_time": None, "max_length": None, "stop_strings": None, "prefill_chunk_size": None, "compile_config": None,
    "prompt_lookup_num_tokens": None, "assistant_early_exit": None, "use_mtp": False, "is_assistant": False,
}  # fmt: skip
# What would write other tokens, by other passes than those that are shown; with the value that changes nothing.
REFUSED = {
    "guidance_scale": 1, "watermarking_config": None, "token_healing": False, "penalty_alpha": 0, "dola_layers": None,
    "constraints": None, "force_words_ids": None,
}  # fmt: skip


@dataclass(frozen=True)
class Alternative:
    """A token that may be written next, and its probability at temperature 1."""

    token_id: int
    token: str
    probability: float


@dataclass(frozen=True, eq=False)
class Step:
    """A token that a model has written, and the attention of the forward pass that predicted it.

    The probabilities are those at temperature 1, after what the model's generation config forbids or penalizes.
    """

    position: int  # among the new tokens, counted from 0
    token_id: int
    token: str
    probability: float
    alternatives: tuple[Alternative, ...]  # the likeliest first
    trace: Trace  # over all tokens before this one, the last of which predicted it
    evicted: dict[str, int]  # by the layer's name: how many keys, the oldest, the model's cache holds no more
    end: str = ""  # why this is the last step: "end token", "stop string" or "limit"; empty if it is not

    @property
    def is_last(self) -> bool:
        return bool(self.end)


def writing(
    model: Any,
    tokenizer: Any,
    prompt: str | Sequence[int] | Tensor | Mapping[str, Any],
    max_new_tokens: int = 128,
    *,
    temperature: float = 0.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
    forced: Mapping[int, int | Sequence[int]] | None = None,
    alternatives: int = 10,
    interventions: AnyIntervention | Sequence[AnyIntervention] = (),
    tokens: Sequence[str] = (),
    special: Sequence[int] = (),
) -> Generator[Step, None, None]:
    """Yields each token that a model of transformers writes after a prompt, with the attention that predicted it.

    `prompt` is a text, token ids, or a batch that the tokenizer has made of one text, which may be padded on the left.
    An encoder–decoder model reads it, and its decoder writes. `tokenizer` gives the texts of tokens; `tokens` and
    `special` replace those of the prompt.

    At temperature 0 the likeliest token is written, as `model.generate(do_sample=False)` does. Otherwise tokens are
    drawn as transformers does: logits are divided by the temperature, then limited to the `top_k` largest (0: all),
    then to the most probable with a sum of `top_p`. Which is drawn depends on the seed, the position and the
    probabilities alone. `forced` are tokens at positions among the new ones, counted from 0: an id, or the ids from
    there on. What a model's generation config forbids, penalizes or adds is obeyed, and its stop strings end a text;
    what is not is in the documentation, under Capture.

    `interventions` ablate heads while the model reads and writes, as in `run`: their output is zero at all positions.
    Or they are those of `attnviz.effects.part_intervention`, which change what heads write, MLPs, neurons or the
    residual stream; positions are those of the prompt. The weights shown are those of the model so changed.

    The model reads the prompt once, then each token once, with its cache. Its attention is compared with its own in
    every pass; a layer that differs is named in `trace.missing`. The traces of all steps share their memory. Between
    two steps others may run the model; it is as it was, also if the loop is left: close the generator then.

    Raises ValueError for a model that does not write text, a prompt without tokens or with too many, for settings out
    of range, for a generation config that asks for guidance, a watermark or another search, and for interventions that
    change a mechanism or what heads read, or heads that do not exist.

    Example:
        >>> import transformers
        >>> config = transformers.GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=2, n_positions=16)
        >>> model = transformers.GPT2LMHeadModel(config)
        >>> for step in writing(model, None, [3, 1, 4], max_new_tokens=2):
        ...     print(step.trace[0])
        Layer(layer 0: causal, 2 heads, 3 queries × 3 keys, verified)
        Layer(layer 0: causal, 2 heads, 4 queries × 4 keys, verified)
    """
    if not getattr(model, "can_generate", bool)():
        raise value_error(
            "{name} does not write text. Take a language model, such as those of AutoModelForCausalLM.",
            name=type(model).__name__,
        )
    _check_config(model, tokenizer)
    sampler = Sampler(temperature, top_k, top_p, seed)
    check_count("max_new_tokens", max_new_tokens, 1, MOST_NEW_TOKENS)
    check_count("alternatives", alternatives, 0, 1000)
    read = _prompt(model, tokenizer, prompt, tokens, special)
    chosen = [interventions] if isinstance(interventions, AnyIntervention) else [*interventions]
    if any(isinstance(one, Intervention) and one != Intervention(ablated=one.ablated) for one in chosen):
        raise value_error(
            "A text is written with heads ablated, Intervention(ablated=((0, 1),)). For another mask, score or "
            "normalizer, call attnviz.run for each token."
        )
    choices = _forced(forced or {}, getattr(model.config.get_text_config(), "vocab_size", None))
    limit, count = position_limit(model), 1 if model.config.is_encoder_decoder else read.batch["input_ids"].shape[1]
    most = max_new_tokens if limit is None else min(max_new_tokens, limit + 1 - count)  # the last one is not read
    return _steps(model, read, most, sampler, choices, alternatives, chosen)


class _Texts:
    """The texts of tokens by their ids, each asked for once."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._known: dict[int, VocabularyToken] = {}
        self._special = frozenset(getattr(tokenizer, "all_special_ids", None) or ())

    def tokens(self, ids: Sequence[int]) -> list[VocabularyToken]:
        new = [*dict.fromkeys(id for id in ids if id not in self._known)]
        made = (
            vocabulary_tokens(self._tokenizer, new)
            if self._tokenizer is not None
            else [VocabularyToken(str(id), str(id)) for id in new]
        )
        self._known.update(zip(new, made, strict=True))
        return [self._known[id] for id in ids]

    def end_with(self, stops: Sequence[str], ids: Sequence[int]) -> bool:
        """Returns whether the last token completes one of these strings, as transformers' `StopStringCriteria` does."""
        if not stops:
            return False
        tail = ids[-max(len(stop.encode()) for stop in stops) - 2 :]  # the first of them may lose its space
        before, text = (str(self._tokenizer.decode(part)) for part in (tail[:-1], tail))
        return any(_occurrences(stop, text) > _occurrences(stop, before) for stop in stops)

    def axis(self, ids: Sequence[int], tokens: Sequence[str] = (), special: Sequence[int] = ()) -> AxisTokens:
        """Returns tokens with their texts, of which the first may be given."""
        texts = (*tokens, *token_texts(self.tokens(ids[len(tokens) :])))
        marked = {*special} | {i for i, id in enumerate(ids) if id in self._special}
        return AxisTokens(texts, tuple(sorted(marked)), tuple(ids))


@dataclass(frozen=True, eq=False)
class _Prompt:
    """What the model reads first, and its tokens."""

    batch: dict[str, Tensor]
    axis: AxisTokens
    texts: _Texts

    def extended(self, model: Any, ids: Sequence[int]) -> dict[str, Any]:
        """Returns the batch with further tokens, whose logits are needed, too."""
        if not ids:
            return dict(self.batch)
        more = torch.tensor([ids], device=self.batch["input_ids"].device)
        batch = {"input_ids": more, "attention_mask": torch.ones_like(more)}
        longer: dict[str, Any] = {name: torch.cat([self.batch[name], one], 1) for name, one in batch.items()}
        return longer | ({"logits_to_keep": len(ids) + 1} if "logits_to_keep" in forward_parameters(model) else {})


@dataclass(frozen=True, eq=False)
class _Prepared:
    """What `generate` prepares of its arguments."""

    input_ids: Tensor
    processors: Callable[[Tensor, Tensor], Tensor]  # of what the config forbids or penalizes
    warpers: Callable[[Tensor, Tensor], Tensor]  # of what is drawn from
    stopping: Callable[[Tensor, Any], Tensor]
    end_tokens: frozenset[int]
    arguments: dict[str, Any]


def _prepare(
    model: Any,
    input_ids: Tensor,
    logits_processor: list[Any],
    stopping_criteria: Callable[[Tensor, Any], Tensor],
    generation_config: Any,
    synced_gpus: bool = False,
    **arguments: Any,
) -> _Prepared:
    """Returns what `generate` calls a decoding loop with, in the place of one."""
    ends = generation_config._eos_token_tensor
    are_warpers = [type(one).__name__.endswith("LogitsWarper") for one in logits_processor]
    first = are_warpers.index(True) if True in are_warpers else len(are_warpers)
    kind: Any = type(logits_processor)
    return _Prepared(
        input_ids,
        kind(logits_processor[:first]),
        kind(logits_processor[first:]),
        stopping_criteria,
        frozenset(() if ends is None else ends.flatten().tolist()),
        arguments,
    )


def _steps(
    model: Any,
    prompt: _Prompt,
    most: int,
    sampler: Sampler,
    forced: dict[int, int],
    alternatives: int,
    interventions: Sequence[AnyIntervention],
) -> Generator[Step, None, None]:
    is_encoder_decoder, texts = bool(model.config.is_encoder_decoder), prompt.texts
    mask_and_images = {name: one for name, one in prompt.batch.items() if name != "input_ids"}
    passes = GenerationPasses(model, prompt.axis, min(most, LIKELY_TOKENS), mask_and_images)
    parts = [one for one in interventions if isinstance(one, PartIntervention)]
    places = [one for one in interventions if isinstance(one, Intervention)]
    zeros = [zero_heads(heads)] if (heads := ablated_heads(places)) else []
    whole, later = (
        [*zeros, *chain.from_iterable(each)] for each in ([one.whole for one in parts], [one.later for one in parts])
    )
    # Tokens that are forced from the first on are read with the prompt.
    known: list[int] = []
    if not is_encoder_decoder and prompt.batch.keys() == {"input_ids", "attention_mask"}:
        known = [forced[position] for position in takewhile(forced.__contains__, range(most - 1))]
    options = CHOICES | sampler.options | {"custom_generate": _prepare}
    with _refusals(model), passes.first(whole):
        state: _Prepared = model.generate(**prompt.extended(model, known), max_new_tokens=most - len(known), **options)
        # Some rules count from the end of the prompt.
        rules: _Prepared = model.generate(**prompt.batch, max_new_tokens=most, **options) if known else state
        ids, arguments = state.input_ids, state.arguments
        inputs = model.prepare_inputs_for_generation(ids, is_first_iteration=True, **arguments)
        outputs = model(**inputs, return_dict=True)
    check_places(places, passes.heads)
    stops = _stop_strings(model)
    first, rows = ids.shape[1] - len(known), [*outputs.logits[0, -len(known) - 1 :].float()]
    arguments = model._update_model_kwargs_for_generation(outputs, arguments, is_encoder_decoder)
    for position in range(most):
        if not rows:
            has_cache = arguments["use_cache"]
            with _refusals(model), passes.later(later if has_cache else whole):
                length = 1 if has_cache else None
                inputs = model.prepare_inputs_for_generation(ids, next_sequence_length=length, **arguments)
                outputs = model(**inputs, return_dict=True)
            rows = [outputs.logits[0, -1].float()]
            arguments = model._update_model_kwargs_for_generation(outputs, arguments, is_encoder_decoder)
        count = first + position
        read: Any = ids[:, :count]
        scores = rules.processors(read, rows.pop(0)[None])
        token = forced[position] if position in forced else sampler.choose(rules.warpers(read, scores), position)
        if position >= len(known):
            ids = torch.cat([ids, torch.tensor([[token]], device=ids.device)], 1)
        probabilities = scores[0].softmax(-1)
        likeliest = probabilities.topk(min(alternatives, len(probabilities)))
        others = likeliest.indices.tolist()
        target = texts.axis(
            read[0].tolist(), *(() if is_encoder_decoder else (prompt.axis.tokens, prompt.axis.special))
        )
        written: Any = ids[:, : count + 1]
        end = "limit" if bool(rules.stopping(written, ()).all()) or position == most - 1 else ""
        end = "stop string" if texts.end_with(stops, written[0].tolist()) else end
        end = "end token" if token in rules.end_tokens else end
        yield Step(
            position,
            token,
            texts.tokens([token])[0].text,
            float(probabilities[token]),
            tuple(map(Alternative, others, (one.text for one in texts.tokens(others)), likeliest.values.tolist())),
            passes.trace(count, target, prompt.axis),
            passes.evicted,
            end,
        )
        if end:
            return


def _check_config(model: Any, tokenizer: Any) -> None:
    """Raises ValueError for a generation config that would write other tokens, by other passes than these, and for one
    whose stop strings need a tokenizer."""
    for name, neutral in REFUSED.items():
        value = getattr(model.generation_config, name, None)
        if value is not None and value != neutral:
            raise value_error(
                "The generation config of {name} sets {field} to {value}. That writes other tokens than the attention "
                "shown here predicts. To write without it, set model.generation_config.{field} = None.",
                name=type(model).__name__,
                field=name,
                value=short_repr(value),
            )

    if tokenizer is None and _stop_strings(model):
        raise value_error(
            "The generation config of {name} has stop strings, which only its tokenizer can find. Give the tokenizer.",
            name=type(model).__name__,
        )


def _stop_strings(model: Any) -> list[str]:
    stops = getattr(model.generation_config, "stop_strings", None) or []
    return [stops] if isinstance(stops, str) else [*stops]


def _occurrences(part: str, text: str) -> int:
    return sum(text.startswith(part, i) for i in range(len(text)))


def _prompt(model: Any, tokenizer: Any, prompt: Any, tokens: Sequence[str], special: Sequence[int]) -> _Prompt:
    """Returns a prompt as a batch of one text. Raises ValueError if it is not one, or too long."""
    if isinstance(prompt, str):
        if tokenizer is None:
            raise value_error("A text needs a tokenizer. Give the model's, or the ids of the tokens.")
        encoded = tokenizer(prompt, return_special_tokens_mask=True)
        special = special or [i for i, mark in enumerate(encoded["special_tokens_mask"]) if mark]
        prompt = encoded["input_ids"]
    parts = prompt if isinstance(prompt, Mapping) else {"input_ids": prompt}
    batch = {name: torch.as_tensor(one) for name, one in parts.items() if name != "special_tokens_mask"}
    batch = {name: one[None] if one.ndim == 1 else one for name, one in batch.items()}
    ids = batch.get("input_ids")
    if ids is None or ids.ndim != 2 or len(ids) != 1 or not ids.shape[1] or ids.is_floating_point():
        raise value_error(
            "A prompt is a text, the ids of its tokens, or what a tokenizer makes of one text; here its ids have the "
            "shape {shape}.",
            shape=None if ids is None else tuple(ids.shape),
        )
    batch.setdefault("attention_mask", torch.ones_like(ids))
    if not bool(batch["attention_mask"][0, -1]):
        raise value_error("The padding of a prompt is on its left; this one ends with padding.")
    limit, known = position_limit(model), getattr(model.config.get_text_config(), "vocab_size", None)
    if limit is not None and ids.shape[1] > limit:
        raise too_long_error(ids.shape[1], limit, type(model).__name__)
    _check_ids(ids[0].tolist(), known)
    texts = _Texts(tokenizer)
    axis = texts.axis(ids[0].tolist(), tokens, special)
    return _Prompt({name: one.to(model.device) for name, one in batch.items()}, axis, texts)


def _forced(forced: Mapping[int, int | Sequence[int]], vocabulary: int | None) -> dict[int, int]:
    """Returns the forced token of each position. Raises ValueError for one that is not there."""
    choices: dict[int, int] = {}
    for position, choice in forced.items():
        check_count("A position in forced", position, 0, MOST_NEW_TOKENS)
        choices.update(enumerate([choice] if isinstance(choice, int) else map(int, choice), position))
    _check_ids(choices.values(), vocabulary)
    return choices


def _check_ids(ids: Iterable[int], vocabulary: int | None) -> None:
    wrong = next((id for id in ids if not 0 <= id < (vocabulary or 1 << 31)), None)
    if wrong is not None:
        raise value_error(
            "The model knows {known} tokens, counted from 0; there is no token {id}.",
            known=grouped(vocabulary or 0),
            id=wrong,
        )


@contextmanager
def _refusals(model: Any) -> Iterator[None]:
    """Raises ValueError for what transformers raises about a prompt."""
    from attnviz.models.readable_errors import INPUT_ERRORS, reason

    try:
        yield
    except INPUT_ERRORS as error:
        raise value_error(
            "{name} cannot continue this text. The reason given is: {reason}",
            name=type(model).__name__,
            reason=reason(error),
        ) from error
