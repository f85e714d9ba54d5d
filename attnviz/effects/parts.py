"""Parts of a model's run, in one language: what heads and MLPs read and write, hidden units, the residual stream.

A site is a place where a run can be read, (positions, slots, width): a slot is a head, or a hidden unit, and other
sites have one. A part is a slot of a site, at all positions or at some. Every measurement replaces parts by other
numbers, or adds to them, in rows of a batch (`attnviz.effects.sweep`).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnviz.attribution.linearized_pass import NO_HEAD, NO_LAYER, check_place
from attnviz.base.language import N_, value_error
from attnviz.effects.sweep import Text
from attnviz.models.texts import Texts
from attnviz.tracing.changed_run import LayerChange, run_changed
from attnviz.tracing.forward_arguments import ForwardArguments
from attnviz.tracing.read_positions import read_position
from attnviz.tracing.run_changes import LayerHeads, ModulePlace, Run, RunChange, changed_modules

AblationKind: TypeAlias = Literal["mean", "zero", "resample"]
HeadPart: TypeAlias = Literal["output", "query", "key", "value", "pattern"]
ModulePart: TypeAlias = Literal["mlp", "neuron", "residual", "embedding"]
PartKind: TypeAlias = HeadPart | ModulePart
Head: TypeAlias = tuple[int, int]  # its layer, counted as in a capture, and its number
OF_HEADS: tuple[HeadPart, ...] = get_args(HeadPart)
OF_MODULES: tuple[ModulePart, ...] = get_args(ModulePart)
OF_KEYS = ("key", "value")
READ_BY_HEADS = ("query", *OF_KEYS, "pattern")
NO_MLP = N_("There is no MLP {index}: there are {count}, counted from 0.")
NO_NEURON = N_("There is no neuron {index}: there are {count}, counted from 0.")


class Site(NamedTuple):
    """A place where a run can be read: of a layer of attention, of an MLP, or before a layer of the stream."""

    kind: PartKind
    layer: int


@dataclass(frozen=True)
class ModelPart:
    """A part of a model's run, at all positions or at some of them.

    - "output": what head `index` of layer `layer` writes, before the output projection
    - "query", "key", "value": what it reads, with its rotary position
    - "pattern": its weights
    - "mlp": what MLP `layer` writes
    - "neuron": its hidden unit `index`
    - "residual": the residual stream before layer `layer`
    - "embedding": the residual stream before the first layer

    Layers of heads are counted as in a capture, MLPs as in `attnviz.attribute`, layers of the stream as the rows of
    `patch`. Positions are of queries, of a key or value of keys; those below 0 count from the last one that is read.
    Raises ValueError for another kind.

    Example:
        >>> print(ModelPart("query", 23, 3, positions=(-1,)))
        query of head 23.3 at -1
    """

    kind: PartKind
    layer: int = 0
    index: int = 0
    positions: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.kind not in (*OF_HEADS, *OF_MODULES):
            kinds = ", ".join(f"“{kind}”" for kind in (*OF_HEADS, *OF_MODULES))
            raise value_error("A part is one of {kinds}; this is “{kind}”.", kinds=kinds, kind=self.kind)

    def __str__(self) -> str:
        match self.kind:
            case "output":
                name = f"head {self.layer}.{self.index}"
            case "mlp":
                name = f"MLP {self.layer}"
            case "neuron":
                name = f"neuron {self.index} of MLP {self.layer}"
            case "residual":
                name = f"residual stream before layer {self.layer}"
            case "embedding":
                name = "embedding"
            case _:
                name = f"{self.kind} of head {self.layer}.{self.index}"
        return name if self.positions is None else f"{name} at {', '.join(map(str, self.positions))}"

    @property
    def site(self) -> Site:
        """Where it is read."""
        return Site("residual", 0) if self.kind == "embedding" else Site(self.kind, self.layer)


@dataclass(frozen=True, eq=False)
class PartReplacement:
    """What a part has instead of its own numbers, (positions, width), or (1, width) at all positions alike; None is
    zero. At pairs of positions (other, own), if there are some, and else at all, up to the last one of the values. Or
    it is added to its own."""

    values: Tensor | None
    positions: Int[Tensor, "pairs 2"] | None = None
    adds: bool = False

    @property
    def is_zero(self) -> bool:
        return self.values is None and not self.adds

    @property
    def is_constant(self) -> bool:
        """Whether it is the same at all positions."""
        return self.positions is None and (self.values is None or len(self.values) == 1)

    def __call__(self, own: Float[Tensor, "positions width"]) -> None:
        """Changes a part's own numbers in place."""
        every = slice(None) if self.values is None or len(self.values) == 1 else slice(min(len(own), len(self.values)))
        source, target = (every, every) if self.positions is None else self.positions.unbind(-1)
        other: Tensor | int = 0
        if self.values is not None:
            other = (self.values[source] if len(self.values) > 1 else self.values).to(own)
            if other.shape[1] != own.shape[1]:
                raise value_error(
                    "A vector of {count} numbers is expected here, and this one has {width}.",
                    count=own.shape[1],
                    width=other.shape[1],
                )
        own[target] = own[target] + other if self.adds else other


Parts: TypeAlias = Sequence[ModelPart | Collection[ModelPart]]  # each is changed alone, those of a collection at once
Changes: TypeAlias = Mapping[ModelPart, PartReplacement]  # all that is changed in one run


def every_head(text: Text) -> list[Head]:
    """Returns all heads of a model."""
    return [(layer, head) for layer, count in enumerate(text.heads) for head in range(count)]


def checked_heads(text: Text, heads: Sequence[Head]) -> list[Head]:
    """Returns heads. Raises ValueError if there is no such layer or head."""
    for layer, head in heads:
        check_place(NO_LAYER, layer, len(text.heads))
        check_place(NO_HEAD, head, text.heads[layer])
    return list(heads)


def checked_parts(text: Text, parts: Sequence[ModelPart]) -> list[ModelPart]:
    """Returns parts with the positions that theirs stand for. Raises ValueError if there is no such part."""
    for part in parts:
        if part.kind in OF_HEADS:
            checked_heads(text, [(part.layer, part.index)])
        else:
            module_place(text, part.site)
    if neurons := [part for part in parts if part.kind == "neuron"]:
        values = site_values(text, {part.site for part in neurons})
        for part in neurons:
            check_place(NO_NEURON, part.index, values[part.site].shape[1])
    return [part if part.positions is None else replace(part, positions=_own_positions(text, part)) for part in parts]


def groups_of(text: Text, parts: Parts) -> list[list[ModelPart]]:
    """Returns the parts that are changed at once, each time. Raises ValueError if there is no such part."""
    return [checked_parts(text, [part] if isinstance(part, ModelPart) else [*part]) for part in parts]


def _own_positions(text: Text, part: ModelPart) -> tuple[int, ...]:
    read = read_at(text, part.site)
    return tuple(dict.fromkeys(read_position(position, read) for position in part.positions or ()))


def layer_of(text: Text, site: Site) -> int:
    """Returns the layer of attention whose positions a site has."""
    return site.layer if site.kind in OF_HEADS else module_place(text, site).layer


def read_at(text: Text, site: Site, count: int | None = None) -> Bool[Tensor, " positions"]:
    """Returns which positions of a site are read, of `count`."""
    layer, of_keys = layer_of(text, site), site.kind in OF_KEYS
    if count is None and of_keys and text.own.ids[layer].cross:
        count = text.own.positions[text.layers_of_source[0]]
    return text.read(layer, count, of_keys)


def read_at_all(text: Text, site: Site, count: int) -> Bool[Tensor, " positions"]:
    """Returns which of `count` positions of a site are read, in all texts of a group."""
    return read_at(text, site, count // len(text.each)).repeat(len(text.each))


def module_place(text: Text, site: Site) -> ModulePlace:
    """Returns the call of a module that a site is of. Raises ValueError if there is none."""
    if site.kind == "residual":
        check_place(NO_LAYER, site.layer, len(text.streams))
        return text.streams[site.layer]
    check_place(NO_MLP, site.layer, len(text.mlps))
    if site.kind == "mlp":
        return text.mlps[site.layer]
    if (place := text.neurons[site.layer]) is None:
        raise value_error("This MLP has several maps of hidden units, as a mixture of experts does.")
    return place


def visit_sites(
    text: Text,
    sites: Collection[Site],
    visit: Callable[[Site, Float[Tensor, "positions slots width"]], None],
    arguments: ForwardArguments | None = None,
    gradients: bool = False,
    keep_heads: Callable[[int, LayerHeads], None] = lambda layer, heads: None,
) -> Any:
    """Returns what a model returns, and shows what is read or written at sites, where outputs of heads, and what
    modules read or write, may be changed in place; `keep_heads` gets the layers of heads among them. Raises ValueError
    for a layer that does not expose it."""
    by_layer: dict[int, list[Site]] = defaultdict(list)
    run = []
    for site in sites:
        if site.kind in OF_HEADS:
            by_layer[site.layer].append(site)
        else:
            axis = -1 if site.kind == "neuron" else 1
            run.append(
                RunChange(
                    module=module_place(text, site),
                    values=lambda values, site=site, axis=axis: visit(site, values.unsqueeze(axis)),  # type: ignore[misc]
                )
            )

    def change(layer: int, heads: int) -> LayerChange | None:
        def show(run: LayerHeads) -> None:
            keep_heads(layer, run)
            for site in by_layer[layer]:
                visit(site, head_values(site.kind, run, slice(None)))

        def show_weights(weights: Tensor) -> None:
            for site in by_layer[layer]:
                if site.kind != "pattern":
                    raise value_error(
                        "What heads read and write is not known in this model, which computes its attention by itself "
                        "and does not expose its queries and keys. Choose zero ablation, or patterns."
                    )
                visit(site, weights.transpose(1, 2).flatten(0, 1))

        return LayerChange(heads=show, weights=show_weights) if layer in by_layer else None

    within = changed_modules([run], lambda: 1)
    return run_changed(text.model, arguments or text.few_logits, change, lambda _: within, gradients)[0]


def site_values(text: Text, sites: Collection[Site]) -> dict[Site, Float[Tensor, "positions slots width"]]:
    """Returns what is read or written at sites where nothing is changed. Raises ValueError as `visit_sites`."""
    values: dict[Site, Tensor] = {}
    visit_sites(text, sites, lambda site, own: values.update({site: own.clone()}))
    return values


def read_values(text: Text, sites: Collection[Site]) -> dict[Site, Float[Tensor, "read slots width"]]:
    """Returns the same at the positions that are read."""
    values = site_values(text, sites)
    return {site: own[read_at_all(text, site, len(own)).to(own.device)] for site, own in values.items()}


def own_values(text: Text, values: Mapping[Site, Tensor], part: ModelPart) -> Float[Tensor, "positions width"]:
    """Returns the numbers of a part among those of sites; heads may share them."""
    own = values[part.site]
    if part.kind in OF_HEADS:
        return own[:, part.index // (text.heads[part.layer] // own.shape[1])]
    return own[:, part.index if part.kind == "neuron" else 0]


def head_values(kind: PartKind, run: LayerHeads, sequences: slice) -> Float[Tensor, "positions slots width"]:
    """Returns what heads of a layer write or read, or their weights, in some sequences, which follow each other; keys
    and values may be of fewer heads."""
    if kind == "output":
        return run.output[sequences].flatten(0, 1)
    part: Tensor = (
        run.attention(run.call(), sequences)[1] if kind == "pattern" else getattr(run.call(), kind)[sequences]
    )
    return part.transpose(1, 2).flatten(0, 1)


def changed_parts(text: Text, changes: Changes) -> Run:
    """Returns the run in which parts are replaced. A head that is changed alone keeps what it shares with others from
    them: these read their own."""
    run, by_layer = (
        list[RunChange](),
        defaultdict[int, dict[int, list[tuple[ModelPart, PartReplacement]]]](lambda: defaultdict(list)),
    )
    for part, replacement in changes.items():
        if part.kind in OF_HEADS:
            by_layer[part.layer][part.index].append((part, replacement))
        else:
            slots = slice(part.index, part.index + 1) if part.kind == "neuron" else slice(None)
            run.append(
                RunChange(
                    module=module_place(text, part.site),
                    values=lambda own, each=replacement, slots=slots: each(own[:, slots]),  # type: ignore[misc]
                )
            )
    if not by_layer:
        return run

    def change_heads(layer: int, heads: LayerHeads, example: int) -> None:
        sequences = heads.sequences(example)
        own = heads.output[sequences].view(-1, *heads.output.shape[2:])
        for head, of_head in by_layer[layer].items():
            if any(part.kind != "output" for part, _replacement in of_head):
                heads.output[sequences, :, head] = _attended(heads, sequences, head, of_head)
            for part, replacement in of_head:
                if part.kind == "output":
                    replacement(own[:, head])

    def change_weights(layer: int, weights: Tensor) -> None:
        for head, of_head in by_layer[layer].items():
            for _part, replacement in of_head:
                _change(weights[:, head], replacement)

    has_weights = all(
        part.kind == "pattern" or (part.kind == "output" and replacement.is_zero)
        for part, replacement in changes.items()
        if part.kind in OF_HEADS
    )
    return [*run, RunChange(by_layer, change_heads, change_weights if has_weights else None)]


def _attended(
    heads: LayerHeads, sequences: slice, head: int, changes: Sequence[tuple[ModelPart, PartReplacement]]
) -> Float[Tensor, "sequences queries width"]:
    """Returns what a head writes with another query, key, value or pattern, in the order in which they are computed."""
    count, call = heads.output.shape[2], heads.call()
    for part, replacement in changes:
        if part.kind in ("query", *OF_KEYS):
            read = getattr(call, part.kind).clone()
            _change(_of_head(read, head, count)[sequences], replacement)
            call = replace(call, **{part.kind: read})
    output, weights = heads.attention(call, sequences)
    if not any(part.kind == "pattern" for part, _replacement in changes):
        return output[:, :, head]
    weights = weights[:, head].clone()
    for part, replacement in changes:
        if part.kind == "pattern":
            _change(weights, replacement)
    return weights @ _of_head(call.value, head, count)[sequences]


def _of_head(part: Float[Tensor, "sequences slots positions width"], head: int, heads: int) -> Tensor:
    """Returns the part of one head of `heads`, which may share it with others."""
    return part[:, head // (heads // part.shape[1])]


def _change(own: Float[Tensor, "sequences positions width"], replacement: PartReplacement) -> None:
    """Changes numbers in place; sequences follow each other."""
    flat = own.flatten(0, 1).clone()
    replacement(flat)
    own.copy_(flat.view_as(own))


def replacements(
    text: Text, sites: Sequence[Site], how: AblationKind, texts: Sequence[Any] | None
) -> list[dict[Site, Float[Tensor, "positions slots width"] | None]]:
    """Returns what sites have instead, (positions or 1, slots, width) or nothing: once for each ablation of which the
    mean is taken. Padding is in no mean, and a token that is read is replaced by one that is, in their order. Raises
    ValueError if texts are missing or too short, and where it is not known."""
    if how == "zero":
        return [dict.fromkeys(sites)]
    if how not in ("mean", "resample"):
        raise value_error("An ablation is “mean”, “zero” or “resample”; this is “{how}”.", how=how)
    read = {site: read_at(text, site) for site in sites}
    if not texts and (how == "resample" or any(own.sum() < 2 for own in read.values())):
        raise value_error("This ablation takes what is written on other texts. Give a list of them.")

    def means() -> dict[Site, Tensor]:
        values = [read_values(text.other(batch), sites) for batch in texts or ()]
        return {site: torch.cat([own[site] for own in values]).mean(0, keepdim=True) for site in sites}

    def own_mean(site: Site, values: Tensor) -> Tensor:
        mean = values.unflatten(0, (len(text.each), -1)).mean(1)
        return mean if len(mean) == 1 else mean.repeat_interleave(len(read[site]), 0)

    if how == "mean":
        _check_no_pattern(sites)
        if not texts:
            return [{site: own_mean(site, values) for site, values in read_values(text, sites).items()}]
        return [{**(texts.once((text.model, *sites), means) if isinstance(texts, Texts) else means())}]
    each: list[dict[Site, Tensor | None]] = []
    for other in map(text.other, texts or ()):
        check_patterns(text, other, sites)
        values = read_values(other, sites)
        for site, own in read.items():
            if (shortest := len(values[site])) < (count := int(own.sum())):
                raise value_error(
                    "A resampled text has at least as many tokens as the text, {count}; one of these has {shortest}.",
                    count=count,
                    shortest=shortest,
                )
        each.append({site: _at_read(values[site], own).repeat(len(text.each), 1, 1) for site, own in read.items()})
    return each


def _check_no_pattern(sites: Collection[Site]) -> None:
    if any(site.kind == "pattern" for site in sites):
        raise value_error("Patterns of texts have different lengths, and no mean. Choose another part, or resample.")


def check_patterns(text: Text, other: Text, sites: Collection[Site], is_aligned: bool = True) -> None:
    """Raises ValueError if patterns of two texts have different lengths, or are not aligned."""
    layers = {site.layer for site in sites if site.kind == "pattern"}
    if layers and (
        not is_aligned
        or text.own.positions != other.own.positions
        or not all(torch.equal(text.read(layer), other.read(layer)) for layer in layers)
    ):
        raise value_error(
            "A pattern is taken from a text of the same number of tokens, aligned position by position. Choose another "
            "part."
        )


def _at_read(values: Tensor, read: Bool[Tensor, " positions"]) -> Tensor:
    """Returns values at the positions that are read, one after the other; elsewhere 0."""
    if bool(read.all()):
        return values[: len(read)]
    at_positions = values.new_zeros(len(read), *values.shape[1:])
    at_positions[read.to(values.device)] = values[: int(read.sum())]
    return at_positions


def replacement_of(text: Text, part: ModelPart, values: Mapping[Site, Tensor | None]) -> PartReplacement:
    """Returns what a part has instead, at its positions, of what sites have."""
    own = None if values[part.site] is None else own_values(text, {part.site: values[part.site]}, part)  # type: ignore[dict-item]
    return PartReplacement(own, own_pairs(text, part))


def own_pairs(text: Text, part: ModelPart) -> Int[Tensor, "pairs 2"] | None:
    """Returns pairs of a part's positions with themselves, in all texts of a group; None of all."""
    if part.positions is None:
        return None
    pairs = torch.tensor(part.positions).reshape(-1, 1).expand(-1, 2)
    return text.at_all(pairs, *[len(read_at(text, part.site))] * 2)
