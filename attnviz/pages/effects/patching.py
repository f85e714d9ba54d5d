"""What of a measure a corrupted text recovers with parts of the run of the clean text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from torch import nn

from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import enumeration, fixed, grouped, number, plain_word
from attnviz.base.language import _, option_name, value_error
from attnviz.effects.ablation import Head
from attnviz.effects.metrics import KL, Cosine, NamedMetric
from attnviz.effects.patching import patch
from attnviz.effects.path_patching import patch_paths
from attnviz.effects.text_pair import Patching
from attnviz.figures import Chart
from attnviz.figures.chart_spec import PointsSpec
from attnviz.figures.shares import word_rows
from attnviz.layer import head_name
from attnviz.page.head_numbers import HeadNumbers, Place, mlp_name
from attnviz.page.result_cache import result_cache
from attnviz.pages.effects.sentences import measure_name
from attnviz.pages.effects.state import AT_POSITIONS, EffectsState

MOST_PLACES = 4  # of a sentence
MOST_STEPS = 400_000  # tokens that are read in all runs of a grid


@dataclass(frozen=True, eq=False)
class PatchingView:
    """What is recovered by each part that is taken from the clean run, as far as it is known."""

    state: EffectsState
    patching: Patching
    tokens: tuple[str, ...]  # of the corrupted text
    is_of_heads: bool
    is_complete: bool

    @cached_property
    def recovered(self) -> Float[np.ndarray, "layers columns"]:
        """The recovered shares; NaN where they are not known."""
        return self.patching.recovered.numpy()

    @property
    def has_way(self) -> bool:
        """Whether both texts give another measure, so that something can be recovered."""
        return bool(np.isfinite(self.recovered).any()) or bool(self.patching.values.isnan().all())

    @property
    def done(self) -> int:
        """The number of cells that are known."""
        return int(self.patching.values.isfinite().sum())

    @property
    def sentence(self) -> str:
        """The measure after both texts, and what recovers most."""
        metric, patching = self.state.metric, self.patching
        name = measure_name(self.state)
        if isinstance(metric, KL):
            name = _("the KL divergence (in bits) from what is said after the clean text")
        if isinstance(metric, Cosine):
            name = _("the cosine with the vector of the clean text")
        own = _(
            "Measured is {measure}: {clean} in the clean run, {corrupted} in the corrupted one.",
            measure=name,
            clean=number(patching.clean),
            corrupted=number(patching.corrupted),
        )
        if not self.has_way:
            more = _("Both are the same, so there is nothing to recover. Change the corrupted text.")
        elif not self.is_complete:  # what recovers most is not known yet
            return own
        elif self.state.patched == "residual" and not self.is_of_heads:
            more = _("Most is recovered {places}.", places=enumeration(self._places))
        else:
            (place,) = self.numbers.strongest(1)
            names = {"part": self.numbers.name(place), "share": self.numbers.text(place)}
            more = _("Most is recovered with {part}: {share}.", **names)
        return f"{own} {more}"

    @property
    def _places(self) -> list[str]:
        """At which tokens the stream recovers most, before which layers."""
        names = [option_name(self.state.run.layer_numbers[layer]) for layer in self.patching.layers]
        known = [row for row in range(len(names)) if np.isfinite(self.recovered[row]).any()]
        words = [self._word(self.patching.layers[row], int(np.nanargmax(self.recovered[row]))) for row in known]
        places = []
        for word, rows in groupby(zip(words, known, strict=True), key=lambda pair: pair[0]):
            several = [names[row] for _word, row in rows]
            facts = {"word": word, "first": several[0], "last": several[-1]}
            places.append(
                _("at “{word}” before layers {first} to {last}", **facts)
                if len(several) > 1
                else _("at “{word}” before layer {first}", **facts)
            )
        return places[:MOST_PLACES]

    @cached_property
    def numbers(self) -> HeadNumbers:
        """The shares, of heads or of positions."""
        run = self.state.run
        options: dict[str, Any] = {"columns": self._column_names, "names": self._position_name}
        if self.is_of_heads:
            options = {"counts": run.heads}
        return HeadNumbers(
            _("Recovered by heads") if self.is_of_heads else _("Recovered by layers and positions"),
            [run.ids[layer] for layer in self.patching.layers],
            self.recovered,
            sign=(_("farther"), _("recovered")),
            texts=lambda place: _share(self.recovered[place]),
            **options,
        )

    def _position_name(self, place: Place) -> str:
        run, layer = self.state.run, self.patching.layers[place[0]]
        word = self._word(layer, place[1])
        if self.state.patched == "mlp":
            return _("{mlp}, at “{word}”", mlp=mlp_name(run.ids[layer]), word=word)
        return _("the stream before {layer}, at “{word}”", layer=option_name(run.layers[layer]), word=word)

    @property
    def _column_names(self) -> list[str]:
        """The names of positions: tokens, or numbers where an encoder and a decoder have their own."""
        count = self.recovered.shape[1]
        if self.state.run.target is not None:
            return [*map(str, range(count))]
        return [*map(plain_word, self.tokens[:count])]

    def _word(self, layer: int, position: int) -> str:
        run = self.state.run
        is_target = run.target is not None and run.ids[layer].stack == "decoder"
        words = run.queries(layer) if is_target else self.tokens
        return plain_word(words[position]) if position < len(words) else str(position)


OnView: TypeAlias = Callable[[float, PatchingView], None]  # gets the share that is done, and what is known so far


def patching_key(state: EffectsState, *more: object) -> tuple[object, ...]:
    """Returns what patching depends on."""
    texts = state.source, state.corrupted, state.corrections
    return "patching", texts, state.metric, state.patched, *more


def patching_view(state: EffectsState, progress: OnView | None = None) -> PatchingView:
    """Returns what each part of the clean run recovers, with what is known so far to `progress`. Raises ValueError if
    the texts are not aligned, or if their runs take too long."""
    tokens, is_of_heads = state.corrupted_inputs.source.tokens, state.patched not in AT_POSITIONS
    steps = len(tokens) * len(state.run.heads) * (max(state.run.heads) if is_of_heads else len(tokens))
    if steps > MOST_STEPS:
        raise value_error(
            "All runs together read {count} tokens, and at most {most} are read here. Shorten both texts, or take a "
            "part of a head.",
            count=grouped(steps),
            most=grouped(MOST_STEPS),
        )
    return _view(partial(patch, *_arguments(state), state.patched), state, is_of_heads, progress)


def paths_view(state: EffectsState, head: Head, progress: OnView | None = None) -> PatchingView:
    """Returns what each head before this one recovers by a direct path into its query, key or value. Raises
    ValueError as `patching_view`, and if no layer is before that of the head."""
    assert state.received is not None
    paths = partial(patch_paths, *_arguments(state), head, state.received)
    return _view(paths, state, is_of_heads=True, progress=progress)


def head_positions(state: EffectsState, chosen: Head) -> Chart[PointsSpec]:
    """Returns the bars of what the part of a head recovers at each position: of the query, or for keys and values of
    the key. Raises ValueError as `patching_view`."""
    layer, head = chosen

    def compute() -> Float[np.ndarray, " positions"]:
        options: Any = {"positions": True, "heads": [(layer, head)], "aligned": state.alignment}
        return patch(*_arguments(state), state.patched, **options).recovered[layer, head].numpy()

    work = len(state.corrupted_inputs.source.tokens) * state.source.forward_work
    shares = result_cache().once(compute, *patching_key(state, chosen), work=work)
    words = _words_read(state, layer)
    name = head_name(state.run.layers[layer], head)
    about = {"label": _("{head}: what its positions recover", head=name), "name": name}
    return word_rows({_("recovered"): shares[: len(words)]}, words).with_about(**about)


def describe(view: PatchingView) -> str:
    """Returns how much is known."""
    return _("{done} of {count} cells so far.", done=grouped(view.done), count=grouped(view.recovered.size))


def _view(
    measure: Callable[..., Patching], state: EffectsState, is_of_heads: bool, progress: OnView | None
) -> PatchingView:
    tokens = state.corrupted_inputs.source.tokens

    def view(patching: Patching, is_complete: bool) -> PatchingView:
        return PatchingView(state, patching, tokens, is_of_heads, is_complete)

    def on_progress(share: float, patching: Patching) -> None:
        if progress is not None:
            progress(share, view(patching, is_complete=False))

    return view(measure(aligned=state.alignment, on_progress=on_progress), is_complete=True)


def _arguments(state: EffectsState) -> tuple[nn.Module, dict[str, Any], dict[str, Any], NamedMetric]:
    linearized = state.run.linearized
    return linearized.model, linearized.arguments.kwargs, state.corrupted_inputs.batch, state.metric


def _words_read(state: EffectsState, layer: int) -> Sequence[str]:
    """Returns the words at whose positions parts of a head are patched."""
    run, reads = state.run, state.patched in ("key", "value")
    layer_id = run.ids[layer]
    is_target = layer_id.stack == "decoder" and run.target is not None and not (reads and layer_id.cross)
    words = run.queries(layer) if is_target else state.corrupted_inputs.source.tokens
    return tuple(map(plain_word, words))


def _share(share: float) -> str:
    return f"{fixed(100 * share, 1 if abs(share) < 0.1 else 0)}%"
