"""What a metric becomes without a head or an MLP, measured by running the model, and estimated by gradients."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attnviz.attribution.linearized_pass import NO_HEAD, NO_LAYER, check_place
from attnviz.base.language import value_error
from attnviz.effects.metrics import EffectMetric, Measurement
from attnviz.effects.sweep import ModulePlace, OnProgress, Run, RunChange, Text
from attnviz.models.texts import Texts, each_text
from attnviz.tracing.changed_run import LayerChange, LayerHeads, run_changed

AblationKind: TypeAlias = Literal["mean", "zero", "resample"]
Head: TypeAlias = tuple[int, int]  # its layer, counted as in a capture, and its number


@each_text
def ablations(
    model: nn.Module,
    batch: Any,
    metric: EffectMetric,
    *,
    how: AblationKind = "mean",
    texts: Sequence[Any] | None = None,
    heads: Sequence[Head] | None = None,
    on_progress: OnProgress | None = None,
) -> Float[Tensor, "layers heads"]:
    """Returns the metric without each head minus the metric with all, for one text; NaN where there is no head, or none
    of `heads`, if these are given. Of `Texts` it is a `PerText`.

    Positions of metrics are counted as in the batch, those below 0 from the last one that is read: what the attention
    mask hides, as padding, is in no number and no mean.

    An ablated head writes the mean of its outputs at all positions of `texts`, such as `neutral_texts`, or without any
    of this text: then what it writes everywhere in it has no effect (mean ablation). Or it writes its output at the
    same position of another text, as mean over `texts` (resample ablation, Chan et al. 2022, "Causal Scrubbing"); or
    zero (Michel et al. 2019, "Are Sixteen Heads Really Better than One?"), after which later layers read what they have
    never read, so that an effect may be that of a constant. The model is run, with the heads of a layer as rows of a
    batch. `on_progress` gets the share that is done and the effects so far, and ends the computation by an exception.

    Raises ValueError if there is no such layer or head, if texts are missing or too short, if what heads write is not
    known and zero is not what they are to write, or if the model has not what the metric is of.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> from attnviz.attribution import Logit
        >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=2, n_head=2)).eval()
        >>> ablations(model, torch.tensor([[1, 2, 3]]), Logit(4)).shape
        torch.Size([2, 2])
    """
    text = Text.from_batch(model, batch)
    places = every_head(text) if heads is None else checked_heads(text, heads)
    replacements = head_replacements(text, how, texts)

    def progress(share: float, effects: Tensor) -> None:
        if on_progress:
            on_progress(share, on_grid(text, places, effects))

    runs = [[replaced_heads([place], outputs) for place in places] for outputs in replacements]
    return on_grid(text, places, mean_effects(text, metric, runs, progress))


@each_text
def estimates(
    model: nn.Module,
    batch: Any,
    metric: EffectMetric,
    *,
    how: AblationKind = "mean",
    texts: Sequence[Any] | None = None,
) -> Float[Tensor, "layers heads"]:
    """Returns an estimate of `ablations` by one forward and one backward pass: the gradient of the metric at the output
    of each head times what ablation would add to it (attribution patching, Nanda 2023; Syed et al. 2023).

    It is exact where the metric is affine in the output, and may be far off elsewhere. Metrics that are at their
    extreme where nothing is changed, as KL and Cosine are, have no gradient there. Raises ValueError as `ablations`,
    and where the model has no gradients.
    """
    text = Text.from_batch(model, batch)
    outputs, gradients = outputs_and_gradients(text, metric)
    result = torch.zeros(len(text.heads), max(text.heads), dtype=torch.float64)
    replacements = head_replacements(text, how, texts)
    for replacement in replacements:
        for layer, (output, gradient) in enumerate(zip(outputs, gradients, strict=True)):
            written = replacement[layer]
            other = torch.zeros_like(output) if written is None else at_positions(written, output)
            changed = ((other - output) * gradient)[text.read(layer).to(output.device)]
            result[layer, : text.heads[layer]] += changed.double().sum((0, -1)).cpu()
    for layer, count in enumerate(text.heads):
        result[layer, count:] = torch.nan
    return result / len(replacements)


@each_text
def mlp_ablations(
    model: nn.Module,
    batch: Any,
    metric: EffectMetric,
    *,
    how: AblationKind = "mean",
    texts: Sequence[Any] | None = None,
    on_progress: OnProgress | None = None,
) -> Float[Tensor, " mlps"]:
    """Returns the metric without each MLP minus the metric with all, for one text; MLPs are counted as in
    `attnviz.attribute`, which says what they are. What an ablated one writes is as in `ablations`, as are the errors;
    also raises ValueError where MLPs are not known."""
    text = Text.from_batch(model, batch)
    layers = [mlp.layer for mlp in text.mlps]

    def outputs_in(other: Text) -> list[Tensor]:
        outputs = other.module_values(text.mlps)
        read = (other.read(layer, len(output)) for layer, output in zip(layers, outputs, strict=True))
        return [output[own.to(output.device)] for output, own in zip(outputs, read, strict=True)]

    replacements = _replacements("mlps", text, how, texts, layers, outputs_in)
    runs = [[written_by(*each) for each in zip(text.mlps, outputs, strict=True)] for outputs in replacements]
    return mean_effects(text, metric, runs, on_progress)


def mean_effects(
    text: Text, metric: EffectMetric, runs: Sequence[Sequence[RunChange | Run]], on_progress: OnProgress | None = None
) -> Float[Tensor, " changes"]:
    """Returns the effects of changes as mean over several lists of them."""
    effects = torch.zeros(len(runs[0]), dtype=torch.float64)
    for number, changes in enumerate(runs):

        def progress(share: float, values: Tensor, number: int = number, before: Tensor = effects) -> None:
            if on_progress:
                on_progress((number + share) / len(runs), before / number if number else values)

        effects = effects + text.effects(metric, changes, progress)
    return effects / len(runs)


def every_head(text: Text) -> list[Head]:
    """Returns all heads of a model."""
    return [(layer, head) for layer, count in enumerate(text.heads) for head in range(count)]


def checked_heads(text: Text, heads: Sequence[Head]) -> list[Head]:
    """Returns heads. Raises ValueError if there is no such layer or head."""
    for layer, head in heads:
        check_place(NO_LAYER, layer, len(text.heads))
        check_place(NO_HEAD, head, text.heads[layer])
    return list(heads)


def on_grid(text: Text, places: Sequence[Head], values: Tensor) -> Float[Tensor, "layers heads"]:
    """Returns values of heads as a grid; NaN where there is none."""
    grid = torch.full((len(text.heads), max(text.heads)), torch.nan, dtype=torch.float64)
    if places:
        layers, heads = zip(*places, strict=True)
        grid[list(layers), list(heads)] = values
    return grid


def replaced_heads(heads: Collection[Head], outputs: Sequence[Tensor | None]) -> RunChange:
    """Returns the run in which heads write other outputs, of each layer (positions, heads, width) or nothing."""
    by_layer: dict[int, list[int]] = {}
    for layer, head in heads:
        by_layer.setdefault(layer, []).append(head)

    def change_heads(layer: int, run: LayerHeads, example: int) -> None:
        own = run.output[run.sequences(example)]
        write_instead(own.view(-1, *own.shape[2:]), by_layer[layer], outputs[layer])

    def change_weights(layer: int, weights: Tensor) -> None:
        weights[:, by_layer[layer]] = 0

    has_outputs = any(outputs[layer] is not None for layer in by_layer)
    return RunChange(by_layer, change_heads, None if has_outputs else change_weights)


def written_by(place: ModulePlace, output: Tensor | None) -> RunChange:
    """Returns the run in which a module returns another output, (positions or 1, width), or zeros."""

    def change(values: Tensor) -> None:
        values[:] = 0 if output is None else at_positions(output, values)

    return RunChange(module=place, values=change)


def write_instead(own: Tensor, heads: Sequence[int], outputs: Tensor | None) -> None:
    """Replaces, in place, what some heads of a layer write, (positions, heads, width), by other outputs or nothing."""
    other = None if outputs is None else at_positions(outputs, own)
    for head in heads:
        own[:, head] = 0 if other is None else other[:, head]


def at_positions(outputs: Tensor, like: Tensor) -> Tensor:
    """Returns outputs at the positions of another one: the same at all of them, if there is one alone."""
    return outputs[: len(like)].to(like) if len(outputs) > 1 else outputs.to(like).expand_as(like)


def head_replacements(text: Text, how: AblationKind, texts: Sequence[Any] | None) -> list[list[Tensor | None]]:
    """Returns what the heads of each layer write instead, (positions or 1, heads, width) or nothing: once for each
    ablation of which the mean is taken. Padding is in no mean, and a token that is read is replaced by one that is, in
    their order."""
    return _replacements("heads", text, how, texts, range(len(text.heads)), head_outputs)


def _replacements(
    part: Literal["heads", "mlps"],
    text: Text,
    how: AblationKind,
    texts: Sequence[Any] | None,
    layers: Sequence[int],
    outputs_in: Callable[[Text], list[Tensor]],
) -> list[list[Tensor | None]]:
    """Returns what parts of some layers write instead, of which `outputs_in` returns what they write in a text at the
    positions that are read."""
    if how == "zero":
        return [[None] * len(layers)]
    if how not in ("mean", "resample"):
        raise value_error("An ablation is “mean”, “zero” or “resample”; this is “{how}”.", how=how)
    read = [text.read(layer) for layer in layers]
    if not texts and (how == "resample" or any(own.sum() < 2 for own in read)):
        raise value_error("This ablation takes what is written on other texts. Give a list of them.")

    def written() -> list[list[Tensor]]:
        others = [Text.from_batch(text.model, other) for other in texts] if texts else [text]
        return [outputs_in(other) for other in others]

    def means() -> list[Tensor | None]:
        return [torch.cat(outputs).mean(0, keepdim=True) for outputs in zip(*written(), strict=True)]

    if how == "mean":
        return [texts.once((part, text.model), means) if isinstance(texts, Texts) else means()]
    for own, *outputs in zip(read, *(on_others := written()), strict=True):
        if (shortest := min(map(len, outputs))) < (count := int(own.sum())):
            raise value_error(
                "A resampled text has at least as many tokens as the text, {count}; one of these has {shortest}.",
                count=count,
                shortest=shortest,
            )
    return [[_at_read(each, own) for each, own in zip(outputs, read, strict=True)] for outputs in on_others]


def head_outputs(text: Text) -> list[Float[Tensor, "read heads width"]]:
    """Returns the outputs of the heads of each layer at the positions that are read. Raises ValueError for a layer that
    does not expose them."""
    outputs: list[Tensor] = []

    def refuse(weights: Tensor) -> None:
        raise value_error(
            "What heads write is not known in this model, which computes its attention by itself, so that no mean of "
            "it can be written instead. Choose zero ablation."
        )

    def keep(layer: LayerHeads) -> None:
        output = layer.output.flatten(0, 1)
        outputs.append(output[text.read(len(outputs)).to(output.device)])

    run_changed(text.model, text.arguments, lambda layer, heads: LayerChange(heads=keep, weights=refuse))
    return outputs


def _at_read(outputs: Tensor, read: Bool[Tensor, " positions"]) -> Tensor:
    """Returns outputs at the positions that are read, one after the other; elsewhere 0."""
    if bool(read.all()):
        return outputs
    at_positions = outputs.new_zeros(len(read), *outputs.shape[1:])
    at_positions[read.to(outputs.device)] = outputs[: int(read.sum())]
    return at_positions


def outputs_and_gradients(text: Text, metric: EffectMetric) -> tuple[list[Tensor], list[Tensor]]:
    """Returns the outputs of the heads of each layer, (positions, heads, width), and the gradients of a metric there.
    Raises ValueError where the model has no gradients."""
    outputs: list[Tensor] = []
    leaves: list[Tensor] = []

    def keep(layer: LayerHeads) -> None:
        outputs.append(layer.output.detach().flatten(0, 1).clone())
        leaves.append(torch.zeros_like(layer.output, requires_grad=True))
        layer.output.add_(leaves[-1])

    measurement = Measurement(metric, text.model, text.arguments)
    try:
        with torch.inference_mode(False), torch.enable_grad():
            arguments = text.arguments.repeated(1, **measurement.options)
            output, _ = run_changed(text.model, arguments, lambda layer, heads: LayerChange(heads=keep), gradients=True)
            value = measurement.values(output)[-1]
            gradients = torch.autograd.grad(value, leaves, allow_unused=True)
    except (NotImplementedError, RuntimeError) as error:
        raise value_error(
            "An estimate takes gradients, which this model does not have. {error}", error=error
        ) from error
    known = [
        torch.zeros_like(output) if gradient is None else gradient.flatten(0, 1)
        for output, gradient in zip(outputs, gradients, strict=True)
    ]
    return outputs, known


@each_text
def group_effects(
    model: nn.Module,
    batch: Any,
    metric: EffectMetric,
    groups: Sequence[Collection[Head]],
    *,
    how: AblationKind = "mean",
    texts: Sequence[Any] | None = None,
) -> Float[Tensor, " groups"]:
    """Returns, for each group of heads, the metric where all of them are ablated together minus the metric with all; 0
    of an empty group. Otherwise as `attnviz.effects.ablations`, whose errors it raises."""
    text = Text.from_batch(model, batch)
    places, replacements = [checked_heads(text, [*group]) for group in groups], head_replacements(text, how, texts)
    effects, filled = torch.zeros(len(places), dtype=torch.float64), [i for i, group in enumerate(places) if group]
    if filled:
        runs = [[replaced_heads(places[i], outputs) for i in filled] for outputs in replacements]
        effects[filled] = mean_effects(text, metric, runs)
    return effects
