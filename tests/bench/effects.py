"""All heads ablated one by one, of one text and of fifty, against one forward pass and against TransformerLens; and how
far estimates are off.

`make bench-effects` brings TransformerLens; elsewhere it is left out, and that is said.
"""

import copy
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from itertools import cycle, islice, permutations
from typing import Any

import torch
from torch import Tensor

from attnviz.effects import Cosine, LogitDifference, ablations, estimates, neutral_texts
from attnviz.models.minilm import minilm
from attnviz.models.smollm2 import smollm2
from attnviz.models.texts import PerText, Texts
from tests.bench.measures import in_turn, note, row, section, sizes, table, threads, timed

MARY = "When Mary and John went to the store, John gave the ball to"  # 14 tokens
TOKENS = 14
RUNS = 3
PROMPT = "When {0} and {1} went to the {2}, {1} gave the {3} to"  # of as many tokens, each name and thing being one
NAMES = ("Mary", "John", "Tom", "Anna", "Paul", "Lisa", "Peter", "Kate")
PLACES = ("store", "park", "school", "office", "garden")
THINGS = ("book", "letter", "key")
MOST_OF_THEIRS = 0.7  # of the time of TransformerLens
TOLERANCE = 1e-3  # of effects in logits, as a share of them, and below 1 as it is


def effects() -> None:
    """All tables."""
    language, batch, mary, john = _language_model()
    difference = LogitDifference(mary, john)
    text = {"input_ids": torch.arange(100, 100 + TOKENS)[None]}
    table("All heads ablated at 14 tokens", ("model", "heads", "forward ms", "all, forwards"))
    models = (
        ("MiniLM", minilm().model, text, Cosine()),
        ("12 layers", _deeper(), text, Cosine()),
        ("SmolLM2", language, batch, difference),
    )
    for name, model, given, metric in sizes(models):
        exact = ablations(model, given, metric, how="zero")
        row(name, exact.numel(), *_against_forward(model, given, partial(ablations, model, given, metric, how="zero")))
    estimated(name, model, given, metric, exact)
    table("Heads of SmolLM2 ablated by the length of the text", ("tokens", "heads", "forward ms", "all, forwards"))
    some = [(layer, 4) for layer in range(3, 30, 7)]  # as many as a person asks for
    for tokens in sizes((14, 64, 300)):
        longer = {"input_ids": torch.arange(100, 100 + tokens)[None]}
        ask = partial(ablations, language, longer, difference, how="zero", heads=some)
        row(tokens, len(some), *_against_forward(language, longer, ask))
    against_transformer_lens(language, batch, difference)
    means_against_transformer_lens()


def estimated(name: str, model: Any, batch: Any, metric: Any, exact: Tensor) -> None:
    """Estimates by gradients: what they take, and how far they are from the exact effects."""
    columns = ("heads of", "forward ms", "all, forwards", "correlation", "mean error", "mean effect")
    table(f"Effects of the heads of {name} estimated", columns)
    found = estimates(model, batch, metric, how="zero")
    plain, ratio = _against_forward(model, batch, partial(estimates, model, batch, metric, how="zero"))
    for name, layers in (("all layers", slice(None)), ("layers 0–4", slice(0, 5)), ("the last 5", slice(-5, None))):
        pair = torch.stack([found[layers].flatten(), exact[layers].flatten()])
        error, size = (pair[0] - pair[1]).abs().mean(), pair[1].abs().mean()
        row(name, plain, ratio, float(torch.corrcoef(pair)[0, 1]), float(error), float(size))


def against_transformer_lens(model: Any, batch: Any, metric: LogitDifference) -> None:
    """The same ablations by TransformerLens: a run with a hook for each head."""
    if find_spec("transformer_lens") is None:
        note("TransformerLens is left out: it is not installed. `make bench-effects` brings it.")
        return
    from tests.oracles.bridge import bridged

    ids, exact = batch["input_ids"], ablations(model, batch, metric, how="zero")
    hooked = bridged(copy.deepcopy(model), ids)

    def zero(head: int, z: Tensor, hook: Any) -> Tensor:
        z[:, :, head] = 0
        return z

    def difference(logits: Tensor) -> float:
        return float(logits[0, -1, metric.token] - logits[0, -1, metric.other])

    @torch.no_grad()
    def ablated(layers: range) -> Tensor:
        before = difference(hooked(ids))
        hooks = [
            [(f"blocks.{layer}.attn.hook_z", partial(zero, head))] for layer in layers for head in range(exact.shape[1])
        ]
        after = [difference(hooked.run_with_hooks(ids, fwd_hooks=hook)) for hook in hooks]
        return torch.tensor(after).unflatten(0, (len(layers), -1)) - before

    torch.testing.assert_close(ablated(range(1)).double(), exact[:1], atol=1e-3, rtol=1e-3)
    table(f"{exact.numel()} heads of SmolLM2 ablated by TransformerLens", ("their ms", "attnviz ms", "ratio"))
    theirs, ours = (
        timed(partial(ablated, range(len(exact)))),
        timed(partial(ablations, model, batch, metric, how="zero")),
    )
    row(theirs, ours, ours / theirs)


def means_against_transformer_lens() -> None:
    """Heads that write their means over the same texts, in many prompts, by both: TransformerLens runs all prompts of a
    length in one batch, again for each head."""
    if find_spec("transformer_lens") is None:
        return  # which is said above
    from tests.oracles.bridge import bridged

    loaded, others = smollm2(), neutral_texts(smollm2().tokenizer)
    hooked = bridged(copy.deepcopy(loaded.model), others[0]["input_ids"])

    @torch.no_grad()
    def theirs(prompts: Texts, metric: PerText[LogitDifference], heads: list[tuple[int, int]]) -> Tensor:
        names = [f"blocks.{layer}.attn.hook_z" for layer in {layer: None for layer, _head in heads}]
        caches = [hooked.run_with_cache(one["input_ids"], names_filter=names)[1] for one in others]
        means = {name: torch.cat([cache[name][0] for cache in caches]).mean(0) for name in names}
        answers = torch.tensor([[one.token, one.other] for one in metric])
        effects = torch.zeros(len(prompts), len(heads))

        def write(mean: Tensor, head: int, z: Tensor, hook: Any) -> Tensor:
            z[:, :, head] = mean[head]
            return z

        for numbers, batch in prompts.same_shape():

            def differences(logits: Tensor, numbers: list[int] = numbers) -> Tensor:
                pairs = logits[:, -1].gather(-1, answers[numbers])
                return pairs[:, 0] - pairs[:, 1]

            before = differences(hooked(batch["input_ids"]))
            for i, (layer, head) in enumerate(heads):
                name = f"blocks.{layer}.attn.hook_z"
                hooks = [(name, partial(write, means[name], head))]
                effects[numbers, i] = differences(hooked.run_with_hooks(batch["input_ids"], fwd_hooks=hooks)) - before
        return effects

    def ours(prompts: Texts, metric: PerText[LogitDifference], heads: list[tuple[int, int]]) -> Tensor:
        neutral = [dict(one) for one in others]  # of which nothing is known yet
        effects = ablations(loaded.model, prompts, metric, texts=neutral, heads=heads)
        return effects.values[:, *zip(*heads, strict=True)]

    table(
        "Heads of SmolLM2 that write their means, by TransformerLens (processor time)",
        ("prompts", "heads", "their s", "attnviz s", "ratio", "farthest apart"),
    )
    every = [(layer, head) for layer in range(30) for head in range(9)]
    for count, heads in sizes(((50, every),), short=((2, every[::90]),)):
        results: list[Tensor] = []
        asked = *_prompts(loaded, count), heads
        seconds = []
        for side in (theirs, ours):
            with threads(1):  # which never wait for each other, so that their time is that of computing
                start = time.process_time()
                results.append(side(*asked))
                seconds.append(time.process_time() - start)
        torch.testing.assert_close(results[0].double(), results[1], atol=TOLERANCE, rtol=TOLERANCE)
        farthest = float((results[0] - results[1]).abs().max())
        row(count, len(heads), *seconds, seconds[1] / seconds[0], f"{farthest:.0e}")
    note(f"A ratio of at most {MOST_OF_THEIRS} is wanted. Both ways give the same within {TOLERANCE:.0e}.")


def _prompts(loaded: Any, count: int) -> tuple[Texts, PerText[LogitDifference]]:
    """Returns prompts of 14 tokens, each with another pair of names, and the logit of one above that of the other."""
    pairs = [*islice(permutations(NAMES, 2), count)]
    strings = [
        PROMPT.format(*pair, place, thing)
        for pair, place, thing in zip(pairs, cycle(PLACES), cycle(THINGS), strict=False)
    ]
    ids = [[loaded.text_inputs.word_ids(name)[0] for name in pair] for pair in pairs]
    return Texts(loaded, strings), PerText(tuple(LogitDifference(*pair) for pair in ids))


def _language_model() -> tuple[Any, dict[str, Tensor], int, int]:
    loaded = smollm2()
    batch = {"input_ids": loaded.tokenizer(MARY, return_tensors="pt")["input_ids"]}
    assert batch["input_ids"].shape[1] == TOKENS
    [mary], [john] = (loaded.tokenizer(name)["input_ids"] for name in (" Mary", " John"))
    return loaded.model, batch, mary, john


def _deeper() -> Any:
    """Returns a model with the sizes of MiniLM and 12 layers of drawn weights."""
    kind, config = type(minilm().model), minilm().model.config.to_diff_dict()
    return kind(type(minilm().model.config)(**config | {"num_hidden_layers": 12})).eval()


def _against_forward(model: Any, batch: Any, ask: Callable[[], object]) -> tuple[float, float]:
    """Returns what a forward pass takes, in milliseconds, and how many of them `ask` takes."""
    plain, _, ratio = in_turn(partial(_forward, model, batch), ask, RUNS)
    return plain, ratio


@torch.no_grad()
def _forward(model: torch.nn.Module, batch: dict[str, Tensor]) -> object:
    return model(**batch)


if __name__ == "__main__":
    with section("make bench-effects", "Effects of heads, beside TransformerLens"):
        effects()
