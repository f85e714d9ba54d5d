"""What a link to Side by side says."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attnviz.base.cached_property import cached_property
from attnviz.base.language import N_
from attnviz.base.text import EXAMPLE
from attnviz.layer import Layer
from attnviz.page.fields import ModelField, TextField, optional_choice
from attnviz.page.head_state import SPECIAL_TOKENS_FIELD, HeadState, QueryField
from attnviz.page.selection import Selection
from attnviz.page.session_fields import FileField
from attnviz.page.source_field import head_options, short_layers
from attnviz.sources import Model, Source, Toy
from attnviz.sources.model import PICTURE_MB, PICTURES, TRANSLATED, example_text

SAME = N_("As on the left")
TWINS = {  # examples with one word more or less, and “it” is something else
    EXAMPLE: EXAMPLE.replace("tired", "wide"),
    TRANSLATED: "The small red cars are beautiful.",
}


def is_model(state: Any) -> bool:
    return isinstance(state.source, Model)


def model_on_the_right(state: Any) -> str:
    """Returns the name of the model on the right."""
    from attnviz.models.hub import model_id  # with huggingface_hub, which other pages do without

    return state.source.name if state.right_model == SAME else model_id(state.right_model)


def opening_right_text(state: Any) -> str:
    """Returns the text on the right that the page opens with: that on the left in another model, or its twin."""
    text: str = getattr(state.source, "text", "")
    if is_model(state) and (name := model_on_the_right(state)) != state.source.name:
        return example_text(name, text)
    return TWINS.get(text, text)


def reads_text(state: Any) -> bool:
    """Returns whether there is a text on the right. Raises ValueError if its model cannot be loaded."""
    source = state.source
    return isinstance(source, Toy) or (is_model(state) and "text" in Model(name=model_on_the_right(state)).modality)


def reads_picture(state: Any) -> bool:
    """Returns whether there is a picture on the right alone."""
    return is_model(state) and not reads_text(state)


class SideBySideState(HeadState):
    """A head on a text, and on another text or in another model."""

    presents_controls = True
    special_tokens = SPECIAL_TOKENS_FIELD
    pinned = QueryField("more")
    right_model = ModelField(
        SAME,
        "right-model",
        {SAME: SAME},
        N_("Model on the right"),
        when=is_model,
        about=N_(
            "One of the models on this computer, the path of a folder, or an id of the hub that was downloaded before."
        ),
    )
    right_text = TextField(N_("Text on the right"), opening_right_text, when=reads_text, place="top")
    right_picture = FileField(N_("Image on the right"), PICTURES, PICTURE_MB, when=reads_picture, place="top")
    right_layer = optional_choice(
        N_("Layer on the right"),
        SAME,
        lambda state: {layer.name: i for i, layer in enumerate(state.right_layers)},
        place="side",
    )
    right_head = optional_choice(
        N_("Head on the right"),
        SAME,
        lambda state: head_options(state.right_layers[state.right_index].inputs.heads),
        place="side",
    )

    @cached_property
    def right_source(self) -> Source:
        """What is read on the right; of a file or a trace, the same."""
        source = self.source
        if isinstance(source, Model):
            picture = self.right_picture or source.image
            return replace(source, text=self.right_text, name=model_on_the_right(self), image=picture)
        return replace(source, text=self.right_text) if isinstance(source, Toy) else source

    @property
    def right_layers(self) -> Sequence[Layer]:
        """The layers of the right side. Raises ValueError if there are none, or if they are too long for this page."""
        return short_layers(self.right_source)

    @property
    def right_index(self) -> int:
        """The index of the layer on the right: the chosen one, or else that of the name or of the index on the left."""
        names, left = [layer.name for layer in self.right_layers], self.layers[self.layer].name
        same = names.index(left) if left in names else min(self.layer, len(names) - 1)
        return same if self.right_layer is None else self.right_layer

    @cached_property
    def right_selection(self) -> Selection:
        """The head on the right: the chosen one, or else that of the same number, or the last one."""
        layers, index = self.right_layers, self.right_index
        same = min(self.head, layers[index].inputs.heads - 1) if isinstance(self.head, int) else self.head
        head = same if self.right_head is None else self.right_head
        return Selection(source=self.right_source, layers=layers, index=index, head=head, special=self.special_tokens)
