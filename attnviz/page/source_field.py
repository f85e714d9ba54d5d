"""The source of layers as a field of a state, and the layer and the head that are selected."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from attnviz.analysis.head_maps import Aggregate, HeadChoice, Rollout
from attnviz.base.language import N_, value_error
from attnviz.layer import Kind, Layer, layer_names
from attnviz.page.fields import ChoiceField, LinkReader, PartField, linked_settings
from attnviz.page.parts import by_title, settings, title
from attnviz.page.result_cache import result_cache
from attnviz.page.session_fields import FILE_NOT_LINKED
from attnviz.page.viewport import is_long
from attnviz.sources import SOURCES, Model, Source, Toy
from attnviz.sources.upload import File

S = TypeVar("S", bound=Source)
AGGREGATES: dict[str, HeadChoice] = {N_("Mean of heads"): Aggregate.MEAN, N_("Maximum of heads"): Aggregate.MAXIMUM}
MODEL = "model"  # the parameter of a model's name
HEAD, ROLLOUT = N_("Head #"), N_("Rollout up to this layer")


def example_source() -> Source:
    """Returns the source that a page opens with: the trained model, or toy vectors where it is not installed."""
    from attnviz.models.minilm import minilm  # with transformers, which other sources do without

    return Model() if minilm.is_installed() else Toy()


def with_example(source: S, other: Source) -> S:
    """Returns a source with the input that is the example of another one of its kind."""
    name = settings(type(source))[0].name
    return replace(source, **{name: getattr(other.own_example, name)})  # type: ignore[type-var]


class SourceField(PartField[Source]):
    """A source. The parameter of its input has no prefix, so that a text stays while the source changes. A link that
    names a model is about that one, also where a page opens with another source."""

    def __init__(self) -> None:
        super().__init__(N_("Source"), by_title(SOURCES), lambda _state: example_source())

    def prefix(self, kind: type, setting: str) -> str:
        return "" if setting == settings(kind)[0].name else title(kind)

    def read(self, state: Any, link: LinkReader) -> Source:
        names_model = link.text(self.parameter) is None and link.text(MODEL) is not None
        source = linked_settings(self, Model(), link) if names_model else super().read(state, link)
        return source if link.text(settings(type(source))[0].name) is not None else with_example(source, source)

    def unwritten(self, state: Any, value: Source) -> Source:
        return with_example(super().unwritten(state, value), value)

    def write(self, state: Any, value: Source) -> Iterator[tuple[str, str]]:
        if any(isinstance(getattr(value, one.name), File) for one in settings(type(value))):
            raise value_error(FILE_NOT_LINKED)
        yield from super().write(state, value)


def first_of_text(layers: Sequence[Layer]) -> int:
    """Returns the index of the first layer of a text, which may be after those of an image; 0 if there is none."""
    return next((i for i, layer in enumerate(layers) if layer.id.stack == "text"), 0)


class LayerField(ChoiceField[int]):
    """The index of a layer of the source."""

    def __init__(self) -> None:
        super().__init__(
            N_("Layer"),
            lambda state: {name: i for i, name in enumerate(layer_names([layer.name for layer in state.layers]))},
            lambda state: state.source.opening.layer or first_of_text(state.layers),
            place="top",
            about=N_("Layers run one after the other: each looks at what the one before has made of the tokens."),
        )


class HeadField(ChoiceField[HeadChoice]):
    """A head of the layer, or several as one."""

    def __init__(self, has_rollout: bool = False) -> None:
        super().__init__(
            N_("Head"),
            lambda state: (
                head_options(state.layers[state.layer].inputs.heads)
                | (rollout_option(state.layers[state.layer]) if has_rollout else {})
            ),
            lambda state: min(state.source.opening.head, state.layers[state.layer].inputs.heads - 1),
            place="top",
            about=N_("A layer looks several times at once: each head has queries and keys of its own."),
        )

    def context(self, state: Any) -> Hashable:
        return tuple(layer.name for layer in state.layers)


def source_layers(source: Source) -> Sequence[Layer]:
    """Returns the layers of a source. Raises ValueError if there are none."""
    made = result_cache().layers(source)
    if not made:
        raise value_error("This trace has no layers yet. Wait until its capture has written one.")
    return made


def short_layers(source: Source) -> Sequence[Layer]:
    """Returns the layers of a source. Raises ValueError if there are none, or if maps of one are long."""
    layers = source_layers(source)
    if any(is_long(layer.inputs) for layer in layers):
        raise value_error("This text is too long for this page. Open it on Explore, which shows long maps in parts.")
    return layers


def layer(state: Any) -> Layer:
    """Returns the selected layer of a state."""
    return state.layers[state.layer]


def head_options(heads: int) -> dict[str, HeadChoice]:
    """Returns the heads by their names, and of several their aggregates."""
    options: dict[str, HeadChoice] = {name: head for head, name in enumerate(head_names(heads))}
    return options | (AGGREGATES if heads > 1 else {})


def rollout_option(layer: Layer) -> dict[str, HeadChoice]:
    """Returns the rollout of the layers up to this one by its name; none where its tokens do not attend to each
    other."""
    is_stacked = layer.kind is not Kind.CROSS and layer.inputs.queries == layer.inputs.keys
    return {ROLLOUT: Rollout.ROLLOUT} if is_stacked else {}


def head_names(heads: int) -> list[str]:
    """Returns the names of heads as options of a menu."""
    return [HEAD.replace("#", str(head)) for head in range(heads)]
