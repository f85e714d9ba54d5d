"""Each sentence of Why about 100 texts, compared with what hooks of the test measure in SmolLM2: its numbers, and what
it says of a token, by subtracting what a head writes from the residual stream."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnviz.attribution.circuit import LEAST_SHARE
from attnviz.attribution.metrics import Score
from attnviz.attribution.sum_term import SumTerm
from attnviz.attribution.trail import TrailStep
from attnviz.base.formatting import plain_word
from attnviz.pages.why import sentences as why_sentences
from attnviz.pages.why.answer import WhyAnswer
from attnviz.pages.why.state import WhyState
from tests.support.language_model import HEADS, ids
from tests.support.shares_by_hand import ForwardPass

TEXTS = (Path(__file__).parents[1] / "cases/texts.txt").read_text(encoding="utf-8").splitlines()
MINUS = "−"
LARGEST, LOOKING = 3, 8  # heads of a text that are opened: the largest, and the largest that look at one of both tokens
HEAD, MLP = re.compile(r"layer (\d+), head (\d+)"), re.compile(r"layer (\d+), MLP")


@dataclass(eq=False)
class Measured:
    """A text in transformers' own eager attention: what each part writes at the last token, and what logits are without
    it, with the scale of the last norm held."""

    text: str
    token: int
    other: int

    @cached_property
    def run(self) -> ForwardPass:
        return ForwardPass(self.text)

    @cached_property
    def stream(self) -> Tensor:
        return self.run.streams[-1][-1]

    @cached_property
    def logits(self) -> Tensor:
        with torch.no_grad():
            return self.run.model.lm_head(self.run.factors[-1][-1] * self.stream)

    @cached_property
    def written(self) -> dict[str, Tensor]:
        """What each part of the model writes at the last token, by the names that sentences give it."""
        parts = {"embedding": self.run.streams[0][-1]}
        for layer in range(len(self.run.heads)):
            parts |= {f"layer {layer}, head {head}": self.run.head(layer, head) for head in range(HEADS)}
            parts[f"layer {layer}, MLP"] = self.run.mlps[layer][-1]
        return parts

    @cached_property
    def shares(self) -> dict[str, float]:
        """What the difference of both logits falls by where each part is subtracted."""
        rows = self.run.model.lm_head.weight
        directions = (rows[self.token] - rows[self.other]) * self.run.factors[-1][-1]
        written = torch.stack([*self.written.values()])
        return dict(zip(self.written, (written @ directions).tolist(), strict=True))

    def change(self, part: str, token: int, *, held: bool = True) -> float:
        """What a part adds to the logit of a token above the mean: what is missing where it is subtracted, with the
        scale of the norm `held`, or that of what is left."""
        with torch.no_grad():
            left = self.stream - self.written[part]
            norm = self.run.model.model.norm
            after = self.run.factors[-1][-1] * left if held else norm(left)
            return float((self._row(token) - self._mean_row) @ (norm(self.stream) - after))

    def _row(self, token: int) -> Tensor:
        return self.run.model.lm_head.weight[token]

    @property
    def _mean_row(self) -> Tensor:
        return mean_row(self.run.model)

    def row(self, part: str) -> Tensor:
        """The weights of a head at the last token."""
        layer, head = map(int, HEAD.fullmatch(part).groups())
        return self.run.weights[layer, head, -1]

    def carried(self, part: str, key: int) -> float:
        """The share of a head by a key that it reads."""
        head = tuple(map(int, HEAD.fullmatch(part).groups()))
        last = len(self.run.streams[0]) - 1
        with torch.no_grad():
            written = self.run.carried(head, last, key, self.run.streams[head[0]][key])
            rows = self.run.model.lm_head.weight
            return float((rows[self.token] - rows[self.other]) * self.run.factors[-1][-1] @ written)


@cache
def mean_row(model: nn.Module) -> Tensor:
    """The vector whose product with the normalized stream is the mean logit."""
    return model.lm_head.weight.mean(0)


@dataclass(eq=False)
class Sentence:
    """A sentence as it is shown, with the values of its message, and what was measured."""

    measured: Measured
    shown: WhyAnswer
    values: dict[str, str]
    head: str = ""  # which the sentence before it is about

    def number(self, name: str) -> float:
        return float(self.values[name].strip("<> ").replace(MINUS, "-").replace(",", ""))

    def says(self, name: str, value: float) -> bool:
        """Whether a number is the value, as far as it is written."""
        written = self.values[name].lstrip(f"<> +{MINUS}").replace(",", "")
        digits = len(written.partition(".")[2])
        return abs(self.number(name) - value) <= 0.51 * 10.0**-digits + 1e-4 * max(1, abs(value))

    def token(self, name: str) -> int:
        """The token of the question that a sentence names."""
        metric = self.shown.metric
        names = {self.shown.run.token_text(each): each for each in (metric.other, metric.token)}
        return names[self.values[name].strip("“”")]

    def key(self, name: str) -> list[int]:
        """The positions of a word."""
        return [i for i, word in enumerate(self.shown.columns) if word == self.values[name]]


Check = Callable[[Sentence], bool]
of_scale: list[str] = []  # heads whose change of a token has the other sign where the scale of the norm is not held


def _is_likeliest(one: Sentence) -> bool:
    token, logits = one.token("token"), one.measured.logits
    return int(logits.argmax()) == token and float(logits[token]) > float(logits[one.token("other")])


def _is_difference(one: Sentence) -> bool:
    return one.says("total", float(one.measured.logits[one.token("token")] - one.measured.logits[one.token("other")]))


def _is_ratio(one: Sentence) -> bool:
    likely = one.measured.logits.softmax(-1)
    ratio = float(likely[one.token("token")] / likely[one.token("other")])
    return _is_difference(one) and one.number("factor") == pytest.approx(ratio, rel=0.06)


def _is_largest(largest: Callable[..., str]) -> Check:
    def check(one: Sentence) -> bool:
        shares = one.measured.shares
        part = largest(shares, key=lambda name: shares[name])
        return one.says("share", shares[part]) and one.says("share", shares[one.values["writer"]])

    return check


def _is_share(one: Sentence) -> bool:
    one.head = one.values["writer"].lower().replace("mlp", "MLP")
    return one.says("share", one.measured.shares[one.head])


def _is_read(one: Sentence) -> bool:
    row, keys = one.measured.row(one.head), one.key("key")
    return any(
        one.says("weight", float(row[key])) and one.says("share", one.measured.carried(one.head, key)) for key in keys
    )


def _is_read_most(one: Sentence) -> bool:
    return _is_read(one) and int(one.measured.row(one.head).argmax()) in one.key("key")


def _adds(one: Sentence) -> bool:
    return all(
        one.says(number, one.measured.change(one.head, one.token(token)))
        for number, token in (("first", "token"), ("second", "other"))
    )


def _directly(sign: int) -> Check:
    def check(one: Sentence) -> bool:
        token, looked_at = one.token("word"), int(one.measured.row(one.head).argmax())
        change = one.measured.change(one.head, token)
        least = LEAST_SHARE * max(map(abs, (*one.measured.shares.values(), one.shown.attribution.total)))
        if sign * one.measured.change(one.head, token, held=False) <= 0:
            of_scale.append(f"{one.measured.text} | {one.head}")
        return looked_at in one.key("word") and sign * change > 0.99 * least

    return check


def _is_carried(one: Sentence) -> bool:
    [step] = one.shown.trail
    part = f"layer {step.layer}, head {step.head}"
    carried, whole = one.measured.carried(part, step.source), sum(one.measured.shares.values())
    if "share" in one.values and abs(100 * carried / whole - float(one.values["share"].strip("%"))) > 0.6:
        return False
    return one.says("total", carried)


def _is_sum(one: Sentence) -> bool:
    return one.says("total", sum(one.measured.shares.values())) and len(one.measured.shares) == 30 * (HEADS + 1) + 1


def _is_score(sign: int, *, of_mean: bool) -> Check:
    def check(one: Sentence) -> bool:
        metric = one.shown.metric
        row = one.measured.run.weights[metric.layer, metric.head, metric.query, : metric.query + 1].double().log()
        other = row.mean() if of_mean else row[metric.over]
        difference = float(row[metric.key] - other)
        if not of_mean and one.number("factor") != pytest.approx(2.718281828**difference, rel=0.06):
            return False
        return sign * difference >= -0.005 and abs(one.number("total") - abs(difference)) < 0.01

    return check


# By the message of each sentence of Why about this model: what must have been measured where it is shown.
CHECKS: dict[str, Check] = {
    "Why does it say “{token}” rather than {other} after “{word}”?": _is_likeliest,
    "The logit of “{token}” is {total} above that of {other}: it is {factor} times as likely.": _is_ratio,
    "The logit of “{token}” is {total} above that of {other}.": _is_difference,
    "The largest share for it is that of {writer} at “{word}”: {share}.": _is_largest(max),
    "The largest share against it is that of {writer} at “{word}”: {share}.": _is_largest(min),
    "The shares of {writers} at {positions} add up to {total}; {error} is missing.": _is_sum,
    "{writer} at “{word}” adds {share}.": _is_share,
    "It gives {weight} of its attention to “{key}”, and takes {share} from there.": _is_read_most,
    "Its largest share is from “{key}”: {share}, with a weight of {weight}.": _is_read,
    "Against the average token, it adds {first} to the logit of “{token}” and {second} to that of “{other}”.": _adds,
    "It looks most at “{word}”, and directly raises the logit of “{word}”.": _directly(1),
    "It looks most at “{word}”, and directly lowers the logit of “{word}”.": _directly(-1),
    "It carries {total} from there, {share} of the {whole} that was asked for.": _is_carried,
    "It carries {total} from there.": _is_carried,
    "The score of “{key}” is {total} above that of “{other}”: it gets {factor} times its weight.": _is_score(
        1, of_mean=False
    ),
    "The score of “{key}” is {total} below that of “{other}”: it gets {factor} times its weight.": _is_score(
        -1, of_mean=False
    ),
    "The score of “{key}” is {total} above the mean of those of all keys.": _is_score(1, of_mean=True),
    "The score of “{key}” is {total} below the mean of those of all keys.": _is_score(-1, of_mean=True),
}


class Messages:
    """Records the messages of sentences and their values, as they are made."""

    def __init__(self) -> None:
        self.made: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, message: str, **values: Any) -> str:
        text = message.format(**values)
        self.made.append((message, {name: str(value) for name, value in values.items()}))
        return text


def answers(text: str) -> Iterator[tuple[Measured, WhyAnswer, str]]:
    """The answers about a text whose sentences are compared: each with the head that is shown."""
    state = WhyState.read([("text", text)])
    token, other = state.tokens
    measured = Measured(text, token, other)
    run, metric = state.run, state.metric
    assert list(run.linearized.arguments.by_name["input_ids"][0]) == list(ids(text)[0])
    sums = run.sums(metric, ())
    last = len(run.columns) - 1
    order = sorted(measured.shares, key=lambda name: -abs(measured.shares[name]))
    tokens = {run.token_text(each) for each in (token, other)}
    columns = [*map(plain_word, run.columns)]
    looking = [part for part in order if HEAD.fullmatch(part) and columns[int(measured.row(part).argmax())] in tokens]
    largest = [part for part in order if HEAD.fullmatch(part)][:LARGEST]
    for part in dict.fromkeys([*largest, *looking[:LOOKING]]):
        layer, head = map(int, HEAD.fullmatch(part).groups())
        yield measured, WhyAnswer(run, (), SumTerm(last, layer, head), sums), part
    layer, head = map(int, HEAD.fullmatch(largest[0]).groups())
    key = int(measured.row(largest[0]).argmax())
    trail = (TrailStep("value", layer, head, last, key),)
    yield measured, WhyAnswer(run, trail, None, run.sums(metric, trail)), ""
    for score in (
        Score(layer, head, last, 0, "mean"),
        Score(layer, head, last, last, 0),
        Score(layer, head, last, key, "mean"),
    ):
        yield measured, WhyAnswer(run, (), None, run.sums(score, ())), ""


def contradicted(monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Counter[str]]:
    """Returns the sentences about all texts that what was measured contradicts, and how often each message is shown."""
    wrong, counts, messages = [], Counter[str](), Messages()
    monkeypatch.setattr(why_sentences, "_", messages)
    for text in TEXTS:
        for number, (measured, shown, head) in enumerate(answers(text)):
            messages.made.clear()
            if not head:
                why_sentences.answer_sentence(shown)
            else:
                if not number:
                    why_sentences.question_sentence(shown)
                    why_sentences.answer_sentence(shown)
                    why_sentences.largest_sentences(shown)
                    why_sentences.sum_sentence(shown)
                why_sentences.term_text(shown)
            for message, values in messages.made:
                if message == "“{word}”":  # a part of others
                    continue
                counts[message] += 1
                if not CHECKS[message](Sentence(measured, shown, values, head)):
                    wrong.append(f"{text} | {message} | {values}")
    return wrong, counts


@pytest.fixture(scope="module")
def compared() -> Iterator[tuple[list[str], Counter[str]]]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        yield contradicted(patch)
    torch.set_num_threads(threads)


def test_there_are_100_texts() -> None:
    assert len({*TEXTS}) == len(TEXTS) == 100


def test_no_sentence_is_contradicted_by_what_is_measured(compared) -> None:
    wrong, _counts = compared
    assert wrong == []


def test_each_sentence_is_shown_of_some_text(compared) -> None:
    _wrong, counts = compared
    rare = {message for message in CHECKS if counts[message] < 3}
    assert rare == set()


def test_a_change_of_a_logit_rarely_depends_on_the_scale_that_is_held(compared) -> None:
    _wrong, counts = compared
    assert len(of_scale) < 0.02 * sum(counts[message] for message in CHECKS if "directly" in message)
