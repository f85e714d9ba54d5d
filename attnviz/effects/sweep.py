"""A metric of many changed runs of one text in few forward passes: each run is a row of a batch."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attnviz.attribution.attribution import residual_pass
from attnviz.attribution.float32_weights import in_float32
from attnviz.attribution.linearized_pass import LinearizedPass, read_of_stack
from attnviz.attribution.metric_values import logits_of
from attnviz.base.cached_property import cached_property
from attnviz.base.language import value_error
from attnviz.effects.metrics import (
    EffectMetric,
    Measurement,
    has_last_logits,
    kept_logits,
    measured,
    predicted_ids,
)
from attnviz.layer import LayerId
from attnviz.models.texts import PerText, TextGroup
from attnviz.tracing.changed_run import ChangedRun, LayerChange, layer_change, run_changed
from attnviz.tracing.forward_arguments import ForwardArguments, check_one_example, example_arguments
from attnviz.tracing.optional_transformers import is_encoder_decoder
from attnviz.tracing.residual_writer import ResidualWriter
from attnviz.tracing.run_changes import (
    LayerHeads,
    ModulePlace,
    Run,
    RunChange,
    by_example,
    changed_modules,
    first_layer,
)
from attnviz.tracing.shared_layers import LayerCalls

MOST_TOKENS = 1024  # of all rows of a batch
MOST_LOGITS = 1 << 25  # of all rows that are kept
LAST_POSITIONS = 128  # whose logits are computed where nothing is changed; others only if a metric reads them
TOLERANCE = 1e-3  # of an effect, as a share of it

T = TypeVar("T")
TextMetric: TypeAlias = EffectMetric | PerText[Any]  # one for all texts, or one for each
References: TypeAlias = Sequence[Tensor | None]  # of each text
OnProgress: TypeAlias = Callable[[float, Tensor], None]  # gets the share that is done, and the values so far


@dataclass(frozen=True, eq=False)
class OwnRun:
    """A run of a model in which nothing is changed: what it returns, and of each layer of attention the number of
    heads, the name and the number of positions."""

    output: Any
    heads: tuple[int, ...]
    ids: tuple[LayerId, ...]
    positions: tuple[int, ...]
    calls: LayerCalls


@dataclass(eq=False)
class Text:
    """One text that a model reads again and again, each time with something changed; or a group of them, of equal
    shapes and masks. Positions are those of one text, and numbers at positions those of the texts one after the other:
    what is changed is so in all of them at once."""

    model: nn.Module
    arguments: ForwardArguments
    shares_layers: bool | None = None  # layers compute once what is alike in several rows; None: not tried yet
    like: "Text | None" = None  # another text that the model reads, in which its MLPs are recognized
    group: tuple[ForwardArguments, ...] = ()  # of each text, where they are a group

    @classmethod
    def from_batch(cls, model: nn.Module, batch: Any) -> "Text":
        """Returns the text of a batch of one example, or of a group; a model in half precision reads it in float32.
        Raises ValueError for several examples."""
        exact, several = in_float32(model), batch.batches if isinstance(batch, TextGroup) else (batch,)
        each = tuple(example_arguments(exact, one) for one in several)
        for arguments in each:
            check_one_example(arguments)
        if not isinstance(batch, TextGroup):
            return cls(exact, each[0])
        like = batch.known.once(exact, lambda: cls(exact, each[0]))
        return cls(exact, example_arguments(exact, batch.joined), like=like, group=each)

    @property
    def each(self) -> tuple[ForwardArguments, ...]:
        """What the model is called with for each text."""
        return self.group or (self.arguments,)

    def of_texts(self, values: Iterable[T]) -> T | PerText[T]:
        """Returns what there is for each text of a group, or for the one text."""
        each = (*values,)
        return PerText(each) if self.group else each[0]

    def at_all(self, positions: Int[Tensor, "positions sides"], *counts: int) -> Int[Tensor, "all_positions sides"]:
        """Returns positions of a text in all of a group, of which each side has so many in each text."""
        return torch.cat([positions + number * torch.tensor(counts) for number in range(len(self.each))])

    def other(self, batch: Any) -> "Text":
        """Returns another text that the same model reads."""
        return replace(Text.from_batch(self.model, batch), like=self)

    @property
    def first(self) -> "Text":
        """The text that all others are like, which knows what is tried once for a model."""
        return self if self.like is None else self.like.first

    @cached_property
    def own(self) -> "OwnRun":
        """The run in which nothing is changed."""
        calls, layers = LayerCalls(), list[tuple[LayerId, int]]()

        def note(heads: LayerHeads) -> None:
            layers.append((heads.id, len(heads.output) // len(self.each) * heads.output.shape[1]))

        def change(layer: int, heads: int) -> LayerChange:
            return LayerChange(heads=note, weights=lambda weights: layers.append((LayerId(), weights.shape[2])))

        output, heads = run_changed(self.model, self.few_logits, change, calls.recorded)
        ids, positions = zip(*layers, strict=True)
        return OwnRun(output, tuple(heads), ids, positions, calls)

    @cached_property
    def few_logits(self) -> ForwardArguments:
        """What the model is called with where no logits are read, or the last: of a long text it computes these."""
        ids = predicted_ids(self.arguments)
        is_long = ids is not None and ids.shape[-1] > LAST_POSITIONS and has_last_logits(self.model, self.arguments)
        return self.arguments.repeated(1, len(self.each), logits_to_keep=LAST_POSITIONS) if is_long else self.arguments

    @cached_property
    def _all_logits(self) -> Any:
        """What the model returns where nothing is changed, with the logits of all positions."""
        is_own = self.few_logits is self.arguments
        return self.own.output if is_own else run_changed(self.model, self.arguments, lambda layer, heads: None)[0]

    def _output(self, measurements: Sequence[Measurement]) -> Any:
        """Returns what the model returns where nothing is changed, with the logits that these read."""
        kept = kept_logits(measurements).get("logits_to_keep", sys.maxsize)
        return self.own.output if kept <= LAST_POSITIONS else self._all_logits

    @property
    def heads(self) -> tuple[int, ...]:
        """The number of heads of each layer."""
        return self.own.heads

    @cached_property
    def mlps(self) -> list[ModulePlace]:
        """The MLPs, recognized by what they compute (`attnviz.tracing.linearized_run`), in the order in which they run.
        Raises ValueError as `attnviz.attribute` does, and where what an MLP writes is not what a module returns."""
        if self.like is not None:
            return self.like.mlps
        modules = []
        for writer in self._mlp_writers():
            if writer.returned_by is None:
                raise value_error(
                    "What the MLP {name} writes is returned by none of its modules, so it cannot be taken away.",
                    name=type(writer.module).__name__,
                )
            modules.append(writer.returned_by)
        return self._calls(modules)

    @cached_property
    def neurons(self) -> list[ModulePlace | None]:
        """What reads the hidden units of each MLP; None where several maps do, as in a mixture of experts, or no module
        alone. Raises ValueError as `mlps` does."""
        if self.like is not None:
            return self.like.neurons
        readers = [_reader_of_units(writer) for writer in self._mlp_writers()]
        known = [reader for reader in readers if reader is not None]
        places = [replace(call, changes_input=True) for call in self._calls([module for module, _hidden in known])]
        read = zip(places, known, self.module_values(places), strict=True)
        are_units = iter([place if _is_same(values, units) else None for place, (_module, units), values in read])
        return [None if reader is None else next(are_units) for reader in readers]

    def _mlp_writers(self) -> list[ResidualWriter]:
        with torch.inference_mode(False):
            return residual_pass(LinearizedPass(self.model, self.arguments, most_bytes=sys.maxsize)).ran[1].mlps

    def _calls(self, modules: Sequence[nn.Module]) -> list[ModulePlace]:
        """Returns the calls of modules in the order in which they run, in which a module may be several times."""
        places: dict[nn.Module, list[int]] = {module: [] for module in modules}

        @contextmanager
        def within(run: ChangedRun) -> Iterator[None]:
            def note(module: nn.Module, args: Any, result: Any) -> None:
                by_example(result[0] if isinstance(result, tuple) else result, 1, module)
                places[module].append(max(0, len(run.heads) - 1))  # it may be in the layer of the attention before it

            with ExitStack() as hooks:
                for module in places:
                    hooks.enter_context(module.register_forward_hook(note))
                yield

        run_changed(self.model, self.few_logits, lambda layer, heads: None, within)
        numbers = Counter[nn.Module]()
        calls = []
        for module in modules:
            calls.append(ModulePlace(module, numbers[module], places[module][numbers[module]]))
            numbers[module] += 1
        return calls

    @property
    def streams(self) -> list[ModulePlace]:
        """The modules that read the residual stream before each layer, or several layers of attention."""
        calls = [
            ModulePlace(module, number, layers.start, changes_input=True)
            for module, ranges in self.own.calls.layers.items()
            for number, layers in enumerate(ranges)
            if layers
        ]
        return sorted(calls, key=lambda call: call.layer)

    @property
    def layers_of_source(self) -> list[int]:
        """The layers whose keys are tokens of the text: where there is an encoder, its own and cross-attention."""
        ids = self.own.ids
        if not is_encoder_decoder(self.model):  # a decoder may look at states that are given
            return [layer for layer, each in enumerate(ids) if not each.cross]
        return [layer for layer, each in enumerate(ids) if each.cross or each.stack != "decoder"]

    def read(self, layer: int, count: int | None = None, of_keys: bool = False) -> Bool[Tensor, " positions"]:
        """Returns which queries of a layer are read, or which of `count` keys."""
        id = (self if self.group else self.like or self).own.ids[layer]  # which costs no run of this text
        stack = "encoder" if of_keys and id.cross else id.stack
        return read_of_stack(self.model, self.arguments, self.own.positions[layer] if count is None else count, stack)

    def values(self, metric: TextMetric, references: References = ()) -> Float[Tensor, " texts"]:
        """Returns the metric of each text where nothing is changed; `references` are those of `Measurement`."""
        measurements = self.measurements(metric, references)
        return measured(measurements, self._output(measurements), self.arguments)[:, -1]

    def references(self, metric: TextMetric) -> References:
        """Returns what KL and Cosine of other runs compare with these by; None for another metric."""
        measurements = self.measurements(metric)
        return [each.compared(self._output(measurements)) for each in measurements]

    def measurements(self, metric: TextMetric, references: References = ()) -> list[Measurement]:
        """Returns what measures each text in the rows of a batch that are of it."""
        count = len(self.each)
        metrics = metric if isinstance(metric, PerText) else [metric] * count
        return [
            Measurement(one, self.model, arguments, reference, slice(number, None, count))
            for number, (one, arguments, reference) in enumerate(
                zip(metrics, self.each, references or [None] * count, strict=True)
            )
        ]

    def module_values(self, places: Sequence[ModulePlace]) -> list[Float[Tensor, "positions width"]]:
        """Returns what calls of modules read or return where nothing is changed."""
        values_of: dict[ModulePlace, Tensor] = {}

        def kept(place: ModulePlace) -> RunChange:
            return RunChange(module=place, values=lambda values: values_of.update({place: values.clone()}))

        run = [kept(place) for place in places]
        run_changed(self.model, self.few_logits, lambda layer, heads: None, lambda _: changed_modules([run], lambda: 1))
        return [values_of[place] for place in places]

    def effects(
        self,
        metric: TextMetric,
        changes: Sequence[RunChange | Run],
        on_progress: OnProgress | None = None,
        references: References = (),
    ) -> Float[Tensor, "texts changes"]:
        """Returns the metric of each run, in which one or several things are changed, minus that of the run in which
        nothing is changed, so that it is 0 of a run without changes; `references` are those of `Measurement`.
        `on_progress` gets the effects of the last text.

        Layers below the first change are computed once for all rows of a batch. Raises ValueError if the model does
        not have what the metric is of, or if a layer cannot be changed.
        """
        runs: list[Run] = [[each] if isinstance(each, RunChange) else each for each in changes]
        measurements = self.measurements(metric, references := references or self.references(metric))
        own = self.values(metric, references)[:, None].cpu()
        order = sorted((i for i, run in enumerate(runs) if run), key=lambda i: first_layer(runs[i]))
        values, size = torch.full((len(own), len(runs)), torch.nan, dtype=torch.float64), self._rows(measurements)
        values[:, [i for i, run in enumerate(runs) if not run]] = 0
        for start in range(0, len(order), size):
            part = order[start : start + size]
            values[:, part] = self._effects(measurements, [runs[i] for i in part], own)
            if on_progress:
                on_progress((start + len(part)) / len(order), values[-1].clone())
        return values

    def _effects(
        self, measurements: Sequence[Measurement], changes: Sequence[Run], own: Tensor
    ) -> Float[Tensor, "texts changes"]:
        """Returns the effects of changed runs in one batch. Sharing layers is tried once for all texts that are like
        each other, where it spares more than the run that this takes: the largest effect is compared with that of a run
        without it, and where a model does not allow it, there is none from then on."""
        spared, known = sum(map(first_layer, changes[:-1])), self.first
        if known.shares_layers is None and spared > len(self.heads):
            try:
                shared = self._measure(measurements, changes, shares_layers=True) - own
            except (RuntimeError, ValueError, IndexError):  # of a model that keeps what its layers return, as LLaVA
                known.shares_layers = False
            else:
                largest = int(shared.abs().amax(0).argmax())
                alone = self._measure(measurements, [changes[largest]], shares_layers=False) - own
                near = torch.isclose(shared[:, [largest]], alone, rtol=TOLERANCE, atol=TOLERANCE * TOLERANCE)
                known.shares_layers = bool(near.all())
                if known.shares_layers:
                    return shared
        return self._measure(measurements, changes, bool(known.shares_layers)) - own

    def _rows(self, measurements: Sequence[Measurement]) -> int:
        """Returns the number of changed runs of a batch."""
        logits, options = logits_of(self._output(measurements)), kept_logits(measurements)
        kept = 1 if logits is None else logits[0].numel()
        if logits is not None and options:
            kept = logits.shape[-1] * options["logits_to_keep"]
        tokens = max(self.own.positions)
        return max(1, min(MOST_TOKENS // (tokens * len(self.each)), MOST_LOGITS // (kept * len(self.each))))

    def _measure(
        self, measurements: Sequence[Measurement], changes: Sequence[Run], shares_layers: bool
    ) -> Float[Tensor, "texts changes"]:
        """Returns the metric of each changed run, of which each is a row of a batch, or in a group one of each text."""
        texts = len(self.each)
        arguments = self.arguments.repeated(len(changes), texts, **kept_logits(measurements))

        def change(layer: int, heads: int) -> LayerChange | None:
            return layer_change(changes, layer, rows, texts)

        runs: list[ChangedRun] = []

        def rows() -> int:
            return runs[0].example_counts[0] // texts

        @contextmanager
        def within(run: ChangedRun) -> Iterator[None]:
            runs.append(run)
            with ExitStack() as inside:
                if shares_layers:
                    inside.enter_context(self.own.calls.shared(run, [first_layer(each) for each in changes], texts))
                inside.enter_context(changed_modules(changes, rows))
                yield

        return measured(measurements, run_changed(self.model, arguments, change, within)[0], arguments).cpu()


def _reader_of_units(writer: ResidualWriter) -> tuple[nn.Module, Tensor] | None:
    """Returns the module that reads the hidden units of an MLP, and these; None if there are several such maps."""
    while writer.parts and len(writer.parts) == 1 and writer.routed is None:
        [writer] = writer.parts
    reader = writer.returned_by or writer.module
    return None if writer.hidden is None or writer.routed is not None else (reader, writer.hidden.detach())


def _is_same(values: Tensor, units: Tensor) -> bool:
    units = units.flatten(0, -2)
    return values.shape == units.shape and torch.allclose(values, units, TOLERANCE, TOLERANCE)
