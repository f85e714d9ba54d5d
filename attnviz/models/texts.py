"""Texts that a model reads one by one, and what is measured on each of them."""

import inspect
import json
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, cast, get_args

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils._pytree import tree_leaves

from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import grouped, quoted
from attnviz.base.interruption import end_if_unwanted
from attnviz.base.language import value_error
from attnviz.results import MeasuredResult, grid_columns

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
MOST_BYTES = 64 << 20  # of a file of texts
MOST_TEXTS = 100_000
BATCH_TOKENS = 1_024  # of a batch of several texts
GROUP_TOKENS = 128  # of texts that are changed together: with more, fewer changed runs of them are a batch
SAMPLES = 2_000  # of the bootstrap
MOST_SORTED = 1 << 23  # numbers, of which torch gives quantiles at once
WHOLE = ("texts",)  # arguments that are about all texts, and not about one of them
OF_GROUPS = ("batch", "clean", "corrupted", "metric")  # those that a group of texts has, one for each


class Texts(Sequence[Any]):
    """Texts that a model reads, each tokenized once, as a batch of one example.

    `model` is a loaded model (`attnviz.models.load`), or anything beside a `tokenizer` of transformers; a text is a
    string, or what the model is called with for one example. Functions that take a batch take texts, too, and return a
    `PerText`.

    Example:
        >>> from attnviz.models import load
        >>> texts = Texts(load("HuggingFaceTB/SmolLM2-135M-Instruct"), ["The cat sat", "It rains"])
        >>> [batch["input_ids"].shape[1] for batch in texts]
        [3, 2]
    """

    def __init__(self, model: Any, texts: Iterable[Any], tokenizer: Callable[..., Any] | None = None) -> None:
        every = (*texts,)
        if not every or len(every) > MOST_TEXTS:
            raise value_error(
                "Between 1 and {most} texts are expected; these are {count}.",
                most=grouped(MOST_TEXTS),
                count=grouped(len(every)),
            )

        if tokenizer is None and not hasattr(model, "encode") and any(isinstance(text, str) for text in every):
            raise value_error(
                "Texts are tokenized by a loaded model, attnviz.models.load(…), or by the tokenizer of another one. "
                "Give tokenizer=…, or what it makes of each text."
            )

        def inputs(text: Any) -> Any:
            return model.encode(text) if isinstance(text, str) and tokenizer is None else None

        def batch(text: Any, inputs: Any) -> Any:
            if inputs is not None:
                return inputs.batch
            return tokenizer(text, return_tensors="pt") if isinstance(text, str) and tokenizer else text

        self.strings = tuple(text if isinstance(text, str) else "" for text in every)
        # As `LoadedModel.encode` makes them, with the names of tokens; None of a text that it has not read.
        self.inputs = tuple(map(inputs, every))
        self.batches = tuple(map(batch, every, self.inputs))
        self._results: dict[Hashable, Any] = {}

    @classmethod
    def from_file(cls, model: Any, path: str | Path, tokenizer: Callable[..., Any] | None = None) -> "Texts":
        """Returns the texts of a file, as `read_texts`, which says what it refuses."""
        return cls(model, read_texts(Path(path)), tokenizer)

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: Any) -> Any:
        return self.batches[index]

    def same_shape(self, tokens: int = BATCH_TOKENS) -> Iterator[tuple[list[int], Any]]:
        """Yields the texts in batches without padding: the numbers of texts of equal shapes, of at most that many
        tokens together if there are several, and what the model is called with for all of them."""
        for numbers in _alike([_shape(batch) for batch in self], lambda number: tokens // _longest(self[number])):
            yield numbers, _joined([self[i] for i in numbers])

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Returns what `compute` returns, computed once for these texts and a key."""
        if key not in self._results:
            self._results[key] = compute()
        return cast("T", self._results[key])


@dataclass(frozen=True, eq=False)
class TextGroup:
    """Texts that a model reads as one batch without padding, or with the same; `known` keeps what is computed once for
    several groups."""

    batches: tuple[Any, ...]
    known: Texts

    @property
    def joined(self) -> Any:
        """What the model is called with for all of them."""
        return _joined(self.batches)


def text_groups(*texts: Texts) -> Iterator[list[int]]:
    """Yields the numbers of texts that are a group in each of several lists of them."""
    keys = [tuple(map(_group_key, batches)) for batches in zip(*texts, strict=True)]
    longest = [max(map(_longest, batches)) for batches in zip(*texts, strict=True)]
    return _alike([None if None in key else key for key in keys], lambda number: GROUP_TOKENS // longest[number])


def _group_key(batch: Any) -> Hashable:
    """Returns what batches of a group have in common: shapes and masks. None of a batch that is in no group."""
    batch = {"": batch} if isinstance(batch, Tensor) else batch
    if (shape := _shape(batch)) is None or not all(len(one) == 1 < one.numel() for one in batch.values()):
        return None
    return shape, *(tuple(one.flatten().tolist()) for name, one in batch.items() if "mask" in name)


def _alike(keys: Sequence[Hashable], size: Callable[[int], int]) -> Iterator[list[int]]:
    """Yields the numbers of equal keys, as many at once as `size` says of the first; those of None one by one."""
    groups = defaultdict[Hashable, list[int]](list)
    for number, key in enumerate(keys):
        groups[number if key is None else key].append(number)
    for numbers in groups.values():
        step = max(1, size(numbers[0]))
        yield from (numbers[first : first + step] for first in range(0, len(numbers), step))


def _shape(batch: Any) -> Any:
    """Returns the shapes of the tensors of a mapping of them; None for another batch."""
    if not isinstance(batch, Mapping) or not all(isinstance(one, Tensor) for one in batch.values()):
        return None
    return tuple((name, one.shape) for name, one in batch.items())


def _joined(batches: Sequence[Any]) -> Any:
    """Returns batches of equal shapes as one."""
    if len(batches) == 1:
        return batches[0]
    if isinstance(batches[0], Tensor):
        return torch.cat([*batches])
    return {name: torch.cat([batch[name] for batch in batches]) for name in batches[0]}


def _longest(batch: Any) -> int:
    return max([1, *(one.numel() for one in tree_leaves(batch) if isinstance(one, Tensor))])


def read_texts(path: Path) -> list[str]:
    """Returns the texts of a file: one on each line, or of a .jsonl file the string, or the "text" of the object, on
    each line. Raises ValueError for a file that is too large or cannot be read, or a line without a text."""
    return texts_of(path.name, _content(path))


def texts_of(name: str, content: bytes) -> list[str]:
    """Returns the texts of the content of a file of this name, as `read_texts` does."""
    texts: list[str] = []
    for number, value in enumerate(_lines(name, content), 1):
        text = value.get("text") if isinstance(value, dict) else value
        if not isinstance(text, str):
            raise value_error(
                "Row {number} of {name} has no text. Write a string on each line, or an object with a “text”.",
                number=number,
                name=quoted(name),
            )
        texts.append(text)
    return texts


def read_lines(path: Path) -> list[Any]:
    """Returns the lines of a text file that are not empty, or the value on each line of a .jsonl file. Raises
    ValueError for a file that is too large or cannot be read."""
    return _lines(path.name, _content(path))


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size <= MOST_BYTES:
            return path.read_bytes()
    except OSError as error:
        raise _not_lines(path.name, error) from error
    raise value_error(
        "{name} has more than {most} MB. Give fewer texts.", name=quoted(path.name), most=MOST_BYTES >> 20
    )


def _lines(name: str, content: bytes) -> list[Any]:
    try:
        lines = [line for line in content.decode("utf-8").splitlines() if line.strip()]
        return [json.loads(line) for line in lines] if name.endswith(".jsonl") else lines
    except UnicodeDecodeError as error:
        raise value_error(
            "{name} cannot be read as lines of text: it is not in UTF-8. Save it again in that encoding.",
            name=quoted(name),
        ) from error
    except (RecursionError, json.JSONDecodeError) as error:
        raise _not_lines(name, error) from error


def _not_lines(name: str, error: Exception) -> ValueError:
    return value_error("{name} cannot be read as lines of text: {reason}", name=quoted(name), reason=str(error))


@dataclass(frozen=True, eq=False)
class Spread:
    """How far values of several texts are apart: the standard error of their mean, and the 5 % and 95 % quantiles."""

    standard_error: Float[Tensor, "..."]
    low: Float[Tensor, "..."]
    high: Float[Tensor, "..."]


@dataclass(frozen=True, eq=False)
class PerText(MeasuredResult, Generic[R]):
    """A value for each of several texts: numbers, or results.

    Example:
        >>> found = PerText((torch.tensor([1.0, 2.0]), torch.tensor([3.0, 2.0])))
        >>> found.mean, found.spread.standard_error, found.map(torch.max).values
        (tensor([2., 2.]), tensor([1., 0.]), tensor([2., 3.]))
    """

    each: tuple[R, ...]
    axes: tuple[str, ...] = ()  # the names of those of a value, such as ("layer", "head")

    def __len__(self) -> int:
        return len(self.each)

    def __iter__(self) -> Iterator[R]:
        return iter(self.each)

    def __getitem__(self, index: int) -> R:
        return self.each[index]

    def map(self, function: Callable[[R], T]) -> "PerText[T]":
        """Returns what a function makes of each value."""
        return PerText(tuple(map(function, self.each)))

    @cached_property
    def values(self) -> Float[Tensor, "texts ..."]:
        """The numbers of all texts. Raises ValueError if they are no numbers, or not of one shape."""
        if not all(isinstance(one, Tensor | int | float) for one in self.each):
            raise value_error(
                "These values are no numbers, but of the type {kind}. Take a number of each, as in "
                "found.map(lambda one: one.total).",
                kind=type(self.each[0]).__name__,
            )
        tensors = [torch.as_tensor(one) for one in self.each]
        if len({one.shape for one in tensors}) > 1:
            raise value_error(
                "The values of these texts have different shapes, {first} and others. Take numbers of one shape of "
                "each, as in found.map(lambda one: one[-1]).",
                first=str(tuple(tensors[0].shape)),
            )
        return torch.stack(tensors)

    @property
    def mean(self) -> Float[Tensor, "..."]:
        """The mean over the texts."""
        return self.values.mean(0)

    @property
    def spread(self) -> Spread:
        """The standard error of the mean, NaN for one text, and quantiles over the texts."""
        values, count = self.values, len(self)
        error = values.std(0) / count**0.5 if count > 1 else torch.full_like(values[0], torch.nan)
        low, high = quantiles(values.double(), [0.05, 0.95]).to(values)
        return Spread(error, low, high)

    def interval(self, share: float = 0.95, seed: int = 0) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]:
        """Returns a bootstrap interval of the mean, which takes no distribution for granted: the quantiles of the means
        of texts drawn with replacement (Efron 1979, "Bootstrap Methods: Another Look at the Jackknife")."""
        values, count = self.values.double(), len(self)
        draws = torch.randint(count, (SAMPLES, count), generator=torch.Generator().manual_seed(seed))
        weights = torch.zeros(SAMPLES, count).double().scatter_add_(1, draws, torch.ones_like(draws).double()) / count
        means = weights @ values.reshape(count, -1)
        low, high = quantiles(means, [(1 - share) / 2, (1 + share) / 2])
        return low.reshape(values.shape[1:]), high.reshape(values.shape[1:])

    def columns(self) -> dict[str, Any]:
        """Returns the numbers, or the columns of results, by the text and their other indices."""
        if all(isinstance(one, MeasuredResult) for one in self.each):
            tables = [cast("MeasuredResult", one).columns() for one in self.each]
            counts = [len(next(iter(table.values()))) for table in tables]
            joined = {name: np.concatenate([np.asarray(table[name]) for table in tables]) for name in tables[0]}
            return {"text": np.repeat(np.arange(len(tables)), counts)} | joined
        return grid_columns(("text", *self.axes), value=self.values)


def quantiles(
    values: Float[Tensor, "rows ..."], levels: Sequence[float], ignores_nan: bool = False
) -> Float[Tensor, "levels ..."]:
    """Returns quantiles over the first axis, of so many columns at a time as torch takes."""
    quantile = torch.nanquantile if ignores_nan else torch.quantile
    columns = values.reshape(len(values), -1).split(max(1, MOST_SORTED // len(values)), 1)
    parts = [quantile(block, values.new_tensor(levels), dim=0) for block in columns]
    return torch.cat(parts, 1).reshape(len(levels), *values.shape[1:])


def each_text(function: Callable[P, R]) -> Callable[P, R]:
    """Returns a function of a model and a batch that takes `Texts` in place of the batch, too, and then returns a
    `PerText`. Another argument that is `Texts` or a `PerText` has a value for each text as well; `Texts` of WHOLE are
    about all of them."""
    return _of_texts(function, in_groups=False)


def each_group(function: Callable[P, R | PerText[R]]) -> Callable[P, R]:
    """Returns the same of a function that takes a `TextGroup`, too, with a `PerText` of its metrics, and then returns a
    `PerText`. If an argument that is not OF_GROUPS has a value for each text, they are read one by one."""
    return _of_texts(function, in_groups=True)


def _of_texts(function: Callable[P, Any], in_groups: bool) -> Callable[P, Any]:
    parameters = inspect.signature(function)
    kinds = (parameters.return_annotation, *get_args(parameters.return_annotation))
    shape = next((kind.dim_str for kind in kinds if hasattr(kind, "dim_str")), "")
    axes = tuple(name.removesuffix("s") for name in shape.split())

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        bound = parameters.bind(*args, **kwargs)
        arguments = bound.arguments
        several = {
            name: value
            for name, value in arguments.items()
            if isinstance(value, PerText) or (isinstance(value, Texts) and name not in WHOLE)
        }
        if not any(isinstance(value, Texts) for value in several.values()):
            return function(*args, **kwargs)
        counts = {name: len(value) for name, value in several.items()}
        if len({*counts.values()}) > 1:
            raise value_error(
                "Each text has one value of every argument; these have {counts}.",
                counts=", ".join(f"{name} {count}" for name, count in counts.items()),
            )
        count, results = next(iter(counts.values())), dict[int, Any]()
        for name in {*WHOLE} & arguments.keys():  # so that what is computed of them all is computed once
            if isinstance(arguments[name], list | tuple):
                arguments[name] = Texts(None, arguments[name])
        on_progress = arguments.get("on_progress")
        texts = {name: Texts(None, value) for name, value in several.items() if isinstance(value, Texts)}
        are_groups = in_groups and several.keys() <= {*OF_GROUPS}
        for numbers in text_groups(*texts.values()) if are_groups else ([number] for number in range(count)):
            end_if_unwanted()
            for name, value in several.items():
                each = tuple(value[number] for number in numbers)
                group = TextGroup(each, texts[name]) if name in texts else PerText(each)
                arguments[name] = group if are_groups else each[0]
            if on_progress:
                done, size = len(results), len(numbers)
                arguments["on_progress"] = lambda share, value, done=done, size=size: on_progress(
                    (done + share * size) / count, value
                )
            result = function(*bound.args, **bound.kwargs)
            results.update(zip(numbers, result if are_groups else [result], strict=True))
        return PerText(tuple(results[number] for number in range(count)), axes)

    return call
