"""A question about what a model says after a text, or of a picture."""

from dataclasses import replace
from typing import Any

from attnviz.attribution.text_attribution import TextAttribution, read_inputs
from attnviz.base.language import N_, value_error
from attnviz.models import SMOLLM2
from attnviz.models.drawings import DRAWINGS, SUNSET
from attnviz.models.text_inputs import Tokens
from attnviz.page.fields import ChoiceField, ModelField
from attnviz.page.session_fields import FileField
from attnviz.page.source_field import source_layers
from attnviz.page.text_question import TextQuestion
from attnviz.sources import Model
from attnviz.sources.model import PICTURE_MB, PICTURES

ABOUT_DRAWING = N_("The drawing that the model sees if no image is uploaded.")


def sees_picture(state: Any) -> bool:
    """Returns whether the model of a state sees pictures, and reads no text."""
    return bool(state.source.model().modality == "picture")


class PictureQuestion(TextQuestion):
    """A text or a picture, and the model that reads it."""

    model = ModelField(SMOLLM2, "why-model")
    text, written = TextQuestion.text, TextQuestion.written
    drawing = ChoiceField(
        N_("Drawing"), tuple(DRAWINGS), lambda _state: SUNSET, when=sees_picture, place="side", about=ABOUT_DRAWING
    )
    image = FileField(N_("Image"), PICTURES, PICTURE_MB, when=sees_picture, place="side")

    @property
    def source(self) -> Model:
        drawing, image = self.values.get("drawing", SUNSET), self.values.get("image")
        return replace(super().source, drawing=drawing, image=image)

    def check_modality(self) -> None:
        """Raises ValueError if the model needs a text and a picture."""
        if self.source.model().modality == "text and picture":
            raise value_error(
                "{name} reads texts together with images. This page is for models that read one of the two; Explore "
                "shows where this one looks.",
                name=self.source.model().name,
            )

    def new_run(self) -> TextAttribution:
        """Returns the pass of the model over the text, or over the picture, whose tokens are named by their rows and
        columns."""
        if not sees_picture(self):
            return super().new_run()
        source, model = self.source, self.source.model()
        tokens = source_layers(source)[0].inputs.query_tokens
        inputs = replace(model.encode(*source.example), source=Tokens(tokens))
        return read_inputs(model, inputs, work=source.forward_work)
