"""The atlas of a model: what each of its heads does over many texts, with examples from them."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attnviz.analysis.atlas_checks import are_examples, are_sums, has_shapes
from attnviz.analysis.atlas_examples import KINDS, WRITTEN, Examples
from attnviz.analysis.atlas_mlps import MlpCounts, are_added
from attnviz.analysis.atlas_part import SAMPLED, AtlasPart, read_part, written_norms
from attnviz.analysis.engines import Engine, Local
from attnviz.analysis.head_metrics import HEAD_METRICS
from attnviz.base.app_files import ASSETS
from attnviz.base.language import ENGLISH, language, value_error
from attnviz.base.memory import free_memory
from attnviz.effects.linear_maps import linear_maps
from attnviz.effects.sweep import Text
from attnviz.layer import LayerId
from attnviz.models.texts import Texts
from attnviz.results import MeasuredResult, checked, load, save

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with transformers

PART = 64  # texts that are read before what is counted is written
TOKENS = 20  # that a head looks at, and from, most
NEIGHBORS = 10  # heads that are most like a head
RAISED = 5  # tokens whose logits an example raises, and lowers, most
RAISING = 5  # examples of each head of which that is known
ROUNDING = 1e-4  # of numbers that are read, as a share of them
FILE = "atlas.safetensors"
SHIPPED = ASSETS / "atlases"


@dataclass(frozen=True, eq=False)
class LookedTokens:
    """The tokens that get, or give, the most ordinary weight of each head; −1 where there are fewer."""

    ids: Int[Tensor, "heads tokens"]
    weight: Float[Tensor, "heads tokens"]  # of all texts together
    occurrences: Int[Tensor, "heads tokens"]  # in all texts, wherever

    def has_sizes(self, heads: int) -> bool:
        """Returns whether it has the sizes of so many heads."""
        is_same = self.ids.shape == self.weight.shape == self.occurrences.shape
        return is_same and len(self.ids) == heads and self.ids.shape[1] <= TOKENS

    def is_possible(self) -> bool:
        """Returns whether tokens can have these numbers."""
        return are_sums(self.weight, self.occurrences) and bool((self.ids >= -1).all())


class Pair(NamedTuple):
    """An example of a weight: the number of its text, the positions of its query and key, and the weight."""

    text: int
    query: int
    key: int
    weight: float


@dataclass(frozen=True, eq=False)
class Atlas(MeasuredResult):
    """What each head of a model does over many texts. Heads of all layers follow each other.

    Attributes:
        model: The name of the model.
        weights: How precise its weights are, such as "4-bit, from a GGUF file"; empty where they are as saved.
        texts: The texts.
        layers: The layer of each head.
        heads: The number of each head in its layer.
        metrics: The names of the metrics (`attnviz.analysis.head_metrics.HEAD_METRICS`).
        counts: The number of texts in which a metric is defined.
        means: The mean of a metric over these texts.
        deviations: Its standard deviation.
        values: A metric of each text, of the first 1,024 of more, in 16 bits; NaN where it is not defined.
        lengths: The number of tokens of each text, and of those that a decoder has written.
        examples: Pairs of a query and a key, by their kind: "weight" and "written" have the largest weight, and the
            largest norm of what is written, of different texts; "random" ones are drawn by weight.
        raised: Of the first examples "written" the tokens whose logits each raises most, and lowers most, by what is
            written from the key alone; −1 where that is not known.
        looked_at: The tokens that get the most ordinary weight as keys.
        looked_from: The tokens that give the most of it as queries.
        neighbors: The heads that are most like each head, by their number among all, itself not among them.
        likeness: The mean cosine of their ordinary weights.
        mlps: What is counted of MLPs: norms of what they write, and examples; of none where they are not known.
        raised_by_mlps: Of the first examples "written" of each MLP, as `raised`, by what it writes there; −1 where that
            is not known, and where a norm follows it.
    """

    model: str
    weights: str
    texts: tuple[str, ...]
    layers: tuple[LayerId, ...]
    heads: tuple[int, ...]
    metrics: tuple[str, ...]
    counts: Int[Tensor, "metrics heads"]
    means: Float[Tensor, "metrics heads"]
    deviations: Float[Tensor, "metrics heads"]
    values: Float[Tensor, "sampled metrics heads"]
    lengths: Int[Tensor, "texts 2"]
    examples: dict[str, Examples]
    raised: Int[Tensor, "heads raising 2 raised"]
    looked_at: LookedTokens
    looked_from: LookedTokens
    neighbors: Int[Tensor, "heads neighbors"]
    likeness: Float[Tensor, "heads neighbors"]
    mlps: MlpCounts
    raised_by_mlps: Int[Tensor, "mlps raising 2 raised"]

    def head(self, layer: int | str, head: int) -> int:
        """Returns the number of a head among all, by the index of its layer as it runs or by the layer's name. Raises
        ValueError if there is none."""
        names = [*dict.fromkeys(map(str, self.layers))]
        name = names[layer] if isinstance(layer, int) and 0 <= layer < len(names) else layer
        for number, place in enumerate(zip(map(str, self.layers), self.heads, strict=True)):
            if place == (name, head):
                return number
        raise value_error("There is no head {head} in layer {layer}.", head=head, layer=layer)

    def pairs(self, head: int, kind: str = WRITTEN) -> list[Pair]:
        """Returns the examples of a kind of a head, by its number among all, in their order."""
        return _pairs(self.examples[kind], head)

    def tokens_of_mlp(self, mlp: int, kind: str = WRITTEN) -> list[Pair]:
        """Returns the examples of a kind of an MLP, "written" or "random", whose weight is the norm of what it writes
        there."""
        return _pairs(self.mlps.examples[kind], mlp)

    def share_above(self, metric: str, least: float) -> Float[Tensor, " heads"]:
        """Returns the share of texts in which a metric is at least a number, of those in which it is defined and whose
        values are kept; NaN where there are none."""
        values = self.values[:, self.metrics.index(metric)].float()
        return (values >= least).sum(0) / (~values.isnan()).sum(0)

    def _has_places(self, examples: Examples, layers: Sequence[LayerId]) -> bool:
        """Returns whether the queries and keys of examples in layers are tokens of their texts."""
        is_query_written = torch.tensor([id.stack == "decoder" for id in layers], dtype=torch.bool)
        is_key_written = torch.tensor([id.stack == "decoder" and not id.cross for id in layers], dtype=torch.bool)
        text, query, key = examples.places.long().unbind(-1)
        rows = self.lengths[text].where((examples.order > -torch.inf)[..., None], 1)
        most = (rows.gather(2, axis.long()[:, None, None].expand_as(rows[..., :1]))[..., 0]
                for axis in (is_query_written, is_key_written))  # fmt: skip
        return all(_within(place, count) for place, count in zip((query, key), most, strict=True))

    def columns(self) -> dict[str, Any]:
        """Returns the mean of each metric, with a row for each head."""
        rows = {"layer": [*map(str, self.layers)], "head": [*self.heads]}
        return rows | {name: values.numpy() for name, values in zip(self.metrics, self.means, strict=True)}

    def origin(self) -> dict[str, Any]:
        return {"model": self.model}

    @classmethod
    def from_parts(cls, parts: dict[str, Any]) -> "Atlas":
        """Returns the atlas of what was saved. Raises TypeError if its parts do not fit each other."""
        made = cast("Atlas", checked(cls, parts))
        if not (_has_sizes(made) and _is_possible(made)):
            raise TypeError("the parts of an atlas do not fit each other, or it cannot have these numbers")
        return made


def _pairs(examples: Examples, row: int) -> list[Pair]:
    count = int((examples.order[row] > -torch.inf).sum())
    numbers = zip(examples.places[row, :count].tolist(), examples.weight[row, :count].tolist(), strict=True)
    return [Pair(text, query, key, weight) for (text, query, key), weight in numbers]


def _within(numbers: Tensor, count: int | Tensor) -> bool:
    return not numbers.is_floating_point() and (not numbers.numel() or bool(((numbers >= 0) & (numbers < count)).all()))


def _has_sizes(made: Atlas) -> bool:
    """Returns whether the sizes of an atlas fit each other."""
    heads, texts, metrics = len(made.heads), len(made.texts), len(made.metrics)
    of_heads = {
        "counts": (metrics, heads), "means": (metrics, heads), "deviations": (metrics, heads),
        "values": (min(texts, SAMPLED), metrics, heads), "lengths": (texts, 2),
        "neighbors": (heads, min(NEIGHBORS, heads - 1)), "likeness": (heads, min(NEIGHBORS, heads - 1)),
    }  # fmt: skip
    return (
        heads == len(made.layers) > 0
        and has_shapes(made, of_heads)
        and are_examples(made.examples, KINDS, heads)
        and all(isinstance(one, LookedTokens) and one.has_sizes(heads) for one in (made.looked_at, made.looked_from))
        and all(
            len(raised) == count and raised.shape[2:] == (2, RAISED) and raised.shape[1] <= RAISING
            for raised, count in ((made.raised, heads), (made.raised_by_mlps, len(made.mlps.layers)))
        )
        and made.mlps.is_possible(min(texts, SAMPLED))
        and all(isinstance(layer, LayerId) for layer in made.layers)
    )


def _is_possible(made: Atlas) -> bool:
    """Returns whether an atlas of these sizes can have its numbers."""
    heads, metrics = len(made.heads), len(made.metrics)
    both = (made.looked_at, made.looked_from)
    known, own = made.counts > 0, torch.arange(heads)[:, None]
    all_examples = [*made.examples.values(), *made.mlps.examples.values()]
    places = [(one, made.layers) for one in made.examples.values()]
    places += [(one, made.mlps.layers) for one in made.mlps.examples.values()]
    return all((
        len({*zip(made.layers, made.heads, strict=True)}) == heads and min(made.heads) >= 0,
        len({*made.metrics}) == metrics,
        _within(made.counts, len(made.texts) + 1),
        torch.equal(made.means.isfinite(), known) and torch.equal(made.means.isnan(), ~known),
        torch.equal(made.deviations.isnan(), ~known) and torch.equal(made.deviations >= 0, known),
        not made.deviations.isinf().any(),
        not made.values.isinf().any(),
        are_sums(made.lengths),
        bool((made.likeness.abs() <= 1 + ROUNDING).all() and (made.neighbors != own).all()),
        bool((made.raised >= -1).all() and (made.raised_by_mlps >= -1).all()),
        _within(made.mlps.counts, len(made.texts) + 1),
        _within(made.neighbors, heads),
        all(_within(one.places[..., 0], len(made.texts)) for one in all_examples),
        all(one.is_possible() for one in both),
    )) and all(made._has_places(*each) for each in places)  # fmt: skip


def shipped_atlas(model: "LoadedModel") -> Atlas | None:
    """Returns the atlas of a model that comes with attnviz, over 200 texts that SmolLM2 has written; None if there is
    none of a model of this name and precision."""
    made = _shipped(Path(model.name).name)
    return made if made is not None and made.weights == _precision(model) else None


@lru_cache(4)
def _shipped(name: str) -> Atlas | None:
    path = SHIPPED / f"{name}.safetensors"
    made = load(path).result if path.is_file() else None
    return made if isinstance(made, Atlas) else None


def _precision(model: "LoadedModel") -> str:
    """Returns how precise the weights of a model are, in English, as files have it."""
    with language(ENGLISH):
        return model.precision


def shipped_texts() -> tuple[str, ...]:
    """Returns the texts of the atlases that come with attnviz."""
    made = _shipped("SmolLM2-135M-Instruct")
    assert made is not None
    return made.texts


OnAtlas = Callable[[int, int], None]  # gets the number of texts that are read, or of heads and MLPs, and of all


def atlas(
    model: "LoadedModel | str",
    texts: Sequence[str],
    folder: str | Path | None = None,
    *,
    seed: int = 0,
    engine: Engine | None = None,
    part_size: int = PART,
    on_progress: OnAtlas | None = None,
    on_raised: OnAtlas | None = None,
) -> Atlas:
    """Returns the atlas of a model: what each head does over texts.

    `model` is a loaded one, or its name, which an engine of other machines needs. With a `folder`, what is counted is
    written there every `part_size` texts, so that a run that was ended goes on, and at the end the atlas, as
    atlas.safetensors. `seed` is that of the random examples. `on_progress` gets how many texts are read, and then
    `on_raised` of how many heads and MLPs it is known which tokens they raise. Raises ValueError if the model cannot
    read a text, and if the folder cannot be written.

    Example:
        >>> from attnviz.models import load
        >>> found = atlas(load("HuggingFaceTB/SmolLM2-135M-Instruct"), ["The cat saw the cat", "It rains and it rains"])
        >>> found.means.shape, [*found.examples]
        (torch.Size([11, 270]), ['weight', 'written', 'random'])
    """
    strings, name = (*texts,), model if isinstance(model, str) else model.name
    if not strings:
        raise value_error("An atlas is of at least one text.")
    loaded = _loaded(model)  # before a folder is made
    parts = range(0, len(strings), part_size)
    place = None if folder is None else Path(folder).expanduser()
    drafts = None if place is None else place / _drafts_name(name, strings, seed, part_size)
    if drafts is not None:
        try:
            drafts.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise value_error("The folder cannot be written: {reason}", reason=error.strerror or str(error)) from error
    counted: AtlasPart | None = None
    for first, part in zip(parts, _parts(model, strings, parts, seed, engine or Local(1), drafts), strict=True):
        counted = part if counted is None else AtlasPart.merged([counted, part])
        if (first + part_size) % PART < part_size:  # which takes time in which other threads wait
            free_memory()
        if on_progress:
            on_progress(min(first + part_size, len(strings)), len(strings))
    assert counted is not None
    made = _atlas(loaded, name, strings, counted, on_raised)
    if place is not None and drafts is not None:
        save(place / FILE, made)
        with suppress(OSError):  # nothing else that is there is touched
            for first in parts:
                (drafts / f"{first}.safetensors").unlink(missing_ok=True)
            drafts.rmdir()
    return made


def _drafts_name(model: str, texts: Sequence[str], seed: int, part_size: int) -> str:
    """Returns the name of the folder of parts, which is another one for anything else that is counted."""
    counted = [model, texts, seed, part_size, [metric.name for metric in HEAD_METRICS], "mlps"]
    return f"parts-{hashlib.sha256(json.dumps(counted).encode()).hexdigest()[:16]}"


def _parts(
    model: Any, texts: Sequence[str], parts: range, seed: int, engine: Engine, drafts: Path | None
) -> Iterator[AtlasPart]:
    """Yields what is counted of each part: as it was written before, or as an engine computes it."""
    known = {first for first in parts if drafts is not None and (drafts / f"{first}.safetensors").exists()}
    tasks = [(first, texts[first : first + parts.step]) for first in parts if first not in known]
    loaded = _loaded(model)
    norms = written_norms(loaded, Texts(loaded, texts[:1])) if tasks else []
    computed = engine.map(_count, (model, norms, seed), tasks)
    for first in parts:
        if drafts is None or first not in known:
            part = next(computed)
            if drafts is not None:
                save(drafts / f"{first}.safetensors", part, metric=drafts.name)  # of no other texts
        else:
            saved = load(drafts / f"{first}.safetensors")
            part = saved.result
            metrics = len(HEAD_METRICS)
            if (
                not isinstance(part, AtlasPart)
                or saved.metric != drafts.name
                or not part.is_of(first, parts.step, metrics)
            ):
                raise value_error("A file in the folder is no part of an atlas. Give a new folder.")
        yield part


def _count(shared: tuple[Any, list[Tensor | None], int], task: tuple[int, Sequence[str]]) -> AtlasPart:
    """Returns what is counted of some texts, as a task of an engine."""
    model, norms, seed = shared
    first, texts = task
    loaded = _loaded(model)
    return read_part(loaded, Texts(loaded, texts), first, seed=seed, norms=norms)


def _loaded(model: Any) -> "LoadedModel":
    if isinstance(model, str):
        from attnviz.models import load as load_model

        return load_model(model)
    return cast("LoadedModel", model)


def _atlas(
    model: "LoadedModel", name: str, texts: tuple[str, ...], part: AtlasPart, on_raised: OnAtlas | None
) -> Atlas:
    means = part.sums / part.counts
    variances = (part.squares / part.counts - means.square()).clamp(min=0)
    cosines = (part.alike / part.compared).fill_diagonal_(-torch.inf).nan_to_num(-1, neginf=-2)
    likeness, neighbors = cosines.topk(min(NEIGHBORS, len(cosines) - 1))
    raised, raised_by_mlps = _raised(model, part, Texts(model, texts[:1]), on_raised)
    return Atlas(
        name,
        _precision(model),
        texts,
        part.layers,
        part.heads,
        tuple(metric.name for metric in HEAD_METRICS),
        part.counts,
        means.float(),
        variances.sqrt().float(),
        part.values[part.texts.argsort()].half(),
        part.lengths[part.lengths[:, 0].argsort(), 1:],
        {kind: pairs.without_values() for kind, pairs in part.examples.items()},
        raised,
        _most(part, part.looked_at),
        _most(part, part.looked_from),
        neighbors,
        likeness,
        part.mlps.over_texts(part.texts.argsort()),
        raised_by_mlps,
    )


def _most(part: AtlasPart, weights: Float[Tensor, "heads tokens"]) -> LookedTokens:
    weight, places = weights.topk(min(TOKENS, weights.shape[1]))
    ids = part.tokens[places].where(weight > 0, -1)
    return LookedTokens(ids, weight, part.occurrences[places])


def _raised(model: "LoadedModel", part: AtlasPart, texts: Texts, on_progress: OnAtlas | None) -> tuple[Tensor, Tensor]:
    """Returns the tokens whose logits are raised most, and lowered most, by what heads write from the keys of examples,
    (heads, raising, 2, raised), and by what MLPs write at theirs, (mlps, raising, 2, raised)."""
    of_heads, of_mlps = part.examples[WRITTEN].first(RAISING), part.mlps.examples[WRITTEN].first(RAISING)
    raised, by_mlps = (torch.full((*one.order.shape, 2, RAISED), -1) for one in (of_heads, of_mlps))
    try:
        maps = linear_maps(model.model)
    except (ValueError, NotImplementedError):
        return raised, by_mlps
    layers = {layer.id: layer for layer in maps.layers if layer.output_stream == maps.logits_stream is not None}

    def tokens(written: Float[Tensor, "raising width"], order: Float[Tensor, " raising"]) -> Tensor:
        logits = maps.logits(written)
        both = [logits.topk(RAISED, largest=largest).indices for largest in (True, False)]
        return torch.stack(both, 1).cpu().where(order[:, None, None] > -torch.inf, -1)

    heads, count = len(part.heads), len(part.heads) + len(part.mlps.layers)
    report = on_progress or (lambda done, count: None)
    for number, (id, head) in enumerate(zip(part.layers, part.heads, strict=True)):
        report(number, count)
        if (layer := layers.get(id)) is not None:
            values = of_heads.values[number, :, : layer.output.shape[-1]].to(layer.output)
            raised[number] = tokens(values @ layer.output[head].T, of_heads.order[number])
    is_added = bool(part.mlps.layers) and are_added(Text.from_batch(model.model, texts[0]))
    for number, id in enumerate(part.mlps.layers if is_added else ()):
        report(heads + number, count)
        if (layer := layers.get(id)) is not None:
            by_mlps[number] = tokens(of_mlps.values[number].to(layer.output), of_mlps.order[number])
    return raised, by_mlps
