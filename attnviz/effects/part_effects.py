"""What a metric becomes where parts of a run are replaced or added to: measured by running the model, and estimated by
gradients."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attnviz.base.language import value_error
from attnviz.effects.metrics import EffectMetric, kept_logits, measured
from attnviz.effects.parts import (
    READ_BY_HEADS,
    Changes,
    ModelPart,
    PartKind,
    PartReplacement,
    Parts,
    Site,
    changed_parts,
    groups_of,
    head_values,
    own_pairs,
    own_values,
    read_at_all,
    replacement_of,
    replacements,
    visit_sites,
)
from attnviz.effects.sweep import OnProgress, Text, TextMetric
from attnviz.models.interventions import PartIntervention
from attnviz.models.texts import PerText, each_group
from attnviz.tracing.run_changes import LayerHeads, Run, RunChange

PartChange: TypeAlias = Literal["mean", "zero", "resample", "add"]
Vectors: TypeAlias = Tensor | Sequence[Tensor]


@each_group
def part_effects(
    model: nn.Module,
    batch: Any,
    metric: EffectMetric,
    parts: Parts,
    *,
    how: PartChange = "mean",
    texts: Sequence[Any] | None = None,
    vectors: Vectors | None = None,
    on_progress: OnProgress | None = None,
) -> Float[Tensor, " parts"] | PerText[Tensor]:
    """Returns, for each of some parts, the metric where it is replaced minus the metric where nothing is changed; a
    collection of parts is replaced at once. Of `Texts` it is a `PerText`.

    "mean", "zero" and "resample" replace it as `ablations` does, by its own numbers in other texts. "add" adds a vector
    to it (activation steering: Turner et al. 2023, "Activation Addition"): one of `vectors`, or the only one, of the
    width of the part: of a head, (d_v,), of the residual stream, (width,). Queries and keys have their rotary position,
    so that their mean is one over positions.

    Raises ValueError as `ablations`, and if there is no such part or position, if a vector has another width, and for
    the mean of a pattern.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> from attnviz.attribution import Logit
        >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=2, n_head=2)).eval()
        >>> parts = [ModelPart("output", 1, 0), ModelPart("mlp", 0, positions=(-1,)), ModelPart("residual", 1)]
        >>> part_effects(model, torch.tensor([[1, 2, 3]]), Logit(4), parts).shape
        torch.Size([3])
    """
    text = Text.from_batch(model, batch)
    groups = groups_of(text, parts)
    if how == "add":
        runs = [changed_parts(text, each) for each in _added(text, groups, vectors)]
        return text.of_texts(text.effects(metric, runs, on_progress))
    values = replacements(text, _sites(groups), how, texts)
    return text.of_texts(measured_effects(text, metric, groups, values, on_progress))


@each_group
def part_estimates(
    model: nn.Module,
    batch: Any,
    metric: EffectMetric,
    parts: Parts,
    *,
    how: PartChange = "mean",
    texts: Sequence[Any] | None = None,
    vectors: Vectors | None = None,
) -> Float[Tensor, " parts"] | PerText[Tensor]:
    """Returns an estimate of `part_effects` by one forward and one backward pass: the gradient of the metric at each
    part times what is added to it. Resampled from the clean text of a pair, it is attribution patching (Nanda 2023;
    Syed et al. 2023, "Attribution Patching Outperforms Automated Circuit Discovery").

    It is exact where the metric is affine in the part, as `estimates` says. Raises ValueError as `part_effects` and
    `estimates`.
    """
    text = Text.from_batch(model, batch)
    groups = groups_of(text, parts)
    if how == "add":
        return text.of_texts(_estimated(text, metric, groups, [_added(text, groups, vectors)]))
    return text.of_texts(estimated_effects(text, metric, groups, replacements(text, _sites(groups), how, texts)))


def part_intervention(
    model: nn.Module,
    batch: Any,
    parts: Collection[ModelPart],
    *,
    how: PartChange = "mean",
    texts: Sequence[Any] | None = None,
    vectors: Vectors | None = None,
) -> PartIntervention:
    """Returns the intervention that replaces parts at once, or adds to them, as `part_effects` does, while
    `attnviz.run` or `attnviz.writing` runs the model.

    `batch` is the text, or the prompt, and positions are its own. A part that is replaced at all positions by its mean
    or by zero, or added to at all, is so in each later token, too; what is resampled ends with the prompt. Raises
    ValueError as `part_effects`.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> from attnviz import writing
        >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=2, n_head=2)).eval()
        >>> prompt = torch.tensor([[1, 2, 3]])
        >>> steered = part_intervention(model, prompt, [ModelPart("residual", 1)], how="add", vectors=torch.ones(8))
        >>> len([*writing(model, None, prompt, max_new_tokens=2, interventions=steered)])
        2
    """
    text = Text.from_batch(model, batch)
    [group] = groups_of(text, [parts])
    several = (
        _added(text, [group], vectors)
        if how == "add"
        else [changes_of(text, group, each) for each in replacements(text, _sites([group]), how, texts)]
    )
    if len(several) > 1:
        raise value_error("One run is resampled from one text; these are {count}.", count=len(several))
    [changes] = several
    constant = {part: each for part, each in changes.items() if part.positions is None and each.is_constant}
    own = dict(zip(text.model.modules(), model.modules(), strict=True))  # it may be read in float32
    whole, later = ([_in_model(each, own) for each in changed_parts(text, one)] for one in (changes, constant))
    return PartIntervention(whole, later)


def _in_model(change: RunChange, modules: Mapping[nn.Module, nn.Module]) -> RunChange:
    place = change.module
    return change if place is None else replace(change, module=replace(place, module=modules[place.module]))


def measured_effects(
    text: Text,
    metric: TextMetric,
    groups: Sequence[Collection[ModelPart]],
    values: Sequence[Mapping[Site, Tensor | None]],
    on_progress: OnProgress | None = None,
) -> Float[Tensor, "texts groups"]:
    """Returns the effects of groups of parts that have other values, as mean over several of these; 0 of an empty
    group."""
    runs = [[changed_parts(text, changes_of(text, group, each)) for group in groups] for each in values]
    return mean_effects(text, metric, runs, on_progress)


def mean_effects(
    text: Text, metric: TextMetric, runs: Sequence[Sequence[Run]], on_progress: OnProgress | None = None
) -> Float[Tensor, "texts changes"]:
    """Returns the effects of changes as mean over several lists of them."""
    effects = torch.zeros(len(text.each), len(runs[0]), dtype=torch.float64)
    for number, changes in enumerate(runs):

        def progress(share: float, values: Tensor, number: int = number, before: Tensor = effects) -> None:
            if on_progress:
                on_progress((number + share) / len(runs), before[-1] / number if number else values)

        effects = effects + text.effects(metric, changes, progress)
    return effects / len(runs)


def estimated_effects(
    text: Text,
    metric: TextMetric,
    groups: Sequence[Collection[ModelPart]],
    values: Sequence[Mapping[Site, Tensor | None]],
) -> Float[Tensor, "texts groups"]:
    """Returns estimates of `measured_effects`. Raises ValueError where the model has no gradients."""
    return _estimated(text, metric, groups, [[changes_of(text, group, each) for group in groups] for each in values])


def changes_of(text: Text, parts: Collection[ModelPart], values: Mapping[Site, Tensor | None]) -> Changes:
    """Returns what parts have instead, of what their sites have."""
    return {part: replacement_of(text, part, values) for part in parts}


def _estimated(
    text: Text, metric: TextMetric, groups: Sequence[Collection[ModelPart]], changes: Sequence[Sequence[Changes]]
) -> Float[Tensor, "texts groups"]:
    """Returns estimates of changes of parts, as mean over several lists of them; padding is in none."""
    known = values_and_gradients(text, metric, _sites(groups))
    read = {site: read_at_all(text, site, len(own)).to(own.device) for site, (own, _gradient) in known.items()}

    def estimate(part: ModelPart, replacement: PartReplacement) -> Float[Tensor, " texts"]:
        own, gradient = (own_values(text, {part.site: one}, part) for one in known[part.site])
        replacement(changed := own.clone())
        added = ((changed - own) * gradient)[read[part.site]].double()
        return added.unflatten(0, (len(text.each), -1)).flatten(1).sum(1).cpu()

    nothing = torch.zeros(len(text.each), dtype=torch.float64)
    estimates = [[sum((estimate(*each) for each in one.items()), nothing) for one in several] for several in changes]
    return torch.stack([torch.stack(several, 1) for several in estimates]).mean(0)


def values_and_gradients(
    text: Text, metric: TextMetric, sites: Collection[Site]
) -> dict[Site, tuple[Float[Tensor, "positions slots width"], Float[Tensor, "positions slots width"]]]:
    """Returns the values of sites, and the gradients of the metric of each text there. Raises ValueError where the
    model has no gradients."""
    values: dict[Site, Tensor] = {}
    leaves: dict[Site, Tensor] = {}
    heads: dict[int, LayerHeads] = {}
    read = {site for site in sites if site.kind in READ_BY_HEADS}  # the chain rule leads from what these write to it
    written = {*sites} - read | {Site("output", site.layer) for site in read}

    def visit(site: Site, own: Tensor) -> None:
        values[site], leaves[site] = own.detach().clone(), torch.zeros_like(own, requires_grad=True)
        own.add_(leaves[site])

    measurements = text.measurements(metric)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            arguments = text.arguments.repeated(1, len(text.each), **kept_logits(measurements))
            output = visit_sites(text, written, visit, arguments, True, heads.__setitem__)
            value = measured(measurements, output, arguments)[:, -1].sum()
            gradients = torch.autograd.grad(value, [*leaves.values()], allow_unused=True)
    except (NotImplementedError, RuntimeError) as error:
        raise value_error(
            "An estimate takes gradients, which this model does not have. {error}", error=error
        ) from error
    known = {
        site: (values[site], torch.zeros_like(values[site]) if gradient is None else gradient)
        for site, gradient in zip(leaves, gradients, strict=True)
    }
    return known | {site: _of_read(site.kind, heads[site.layer], known[Site("output", site.layer)][1]) for site in read}


def _of_read(
    kind: PartKind, run: LayerHeads, gradient: Float[Tensor, "positions heads width"]
) -> tuple[Float[Tensor, "read slots width"], Float[Tensor, "read heads width"]]:
    """Returns what heads read, or their weights, and the gradient there by that of what they write, of each head that
    alone reads something else."""
    call, sequences, count = run.call(), slice(0, len(run.output)), run.output.shape[2]
    written = gradient.unflatten(0, (-1, run.output.shape[1]))
    if kind == "pattern":
        values = torch.stack([run.values(head, sequences) for head in range(count)], 1)
        slope = (written.transpose(1, 2) @ values.transpose(-1, -2)).transpose(1, 2).flatten(0, 1)
        return head_values(kind, run, sequences).detach(), slope.detach()
    with torch.inference_mode(False), torch.enable_grad():
        read = getattr(call, kind).detach().clone().requires_grad_()
        output, _weights = run.attention(replace(call, **{kind: read}), sequences)
        shared, slopes = count // read.shape[1], []
        for member in range(shared):
            of_member = torch.zeros_like(written)
            of_member[:, :, member::shared] = written[:, :, member::shared]
            slopes.append(torch.autograd.grad(output, read, of_member.to(output), retain_graph=True)[0])
    slope = torch.stack(slopes, 2).flatten(1, 2)
    return read.detach().transpose(1, 2).flatten(0, 1), slope.transpose(1, 2).flatten(0, 1)


def _sites(groups: Sequence[Collection[ModelPart]]) -> list[Site]:
    return sorted({part.site for group in groups for part in group})


def _added(text: Text, groups: Sequence[Collection[ModelPart]], vectors: Vectors | None) -> list[Changes]:
    """Returns the changes by which a vector is added to the parts of each group. Raises ValueError without vectors, or
    with another number of them."""
    if vectors is None or (not isinstance(vectors, Tensor) and len(vectors) not in (1, len(groups))):
        raise value_error(
            "A vector is added to each part. Give vectors: one for all, or one for each of {count}.", count=len(groups)
        )
    several = [vectors] if isinstance(vectors, Tensor) else [*vectors]
    several = several * len(groups) if len(several) == 1 else several
    return [
        {part: PartReplacement(vector.reshape(1, -1), own_pairs(text, part), adds=True) for part in group}
        for group, vector in zip(groups, several, strict=True)
    ]
