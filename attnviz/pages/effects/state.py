"""What a link to Effects says."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool

from attnviz.attribution.linearized_pass import most_tokens
from attnviz.attribution.metrics import Logit, LogitDifference
from attnviz.attribution.named_pass import MOST_BYTES
from attnviz.base.formatting import quoted
from attnviz.base.language import N_, _, value_error
from attnviz.base.text import EXAMPLE, too_long_error
from attnviz.effects.ablation import AblationKind
from attnviz.effects.head_circuits import Composition, TokenVectors
from attnviz.effects.hidden_region import HowHidden, image_grid
from attnviz.effects.metrics import KL, Cosine, Loss, Measurement, NamedMetric, Probability
from attnviz.effects.patching import PatchedPart
from attnviz.effects.path_patching import ReceivedPart
from attnviz.effects.token_alignment import Alignment, alignment
from attnviz.inputs import PatchGrid
from attnviz.layer import Layer, head_option, layer_names
from attnviz.masks.grid import Grid
from attnviz.models.texts import Texts
from attnviz.page.fields import ChoiceField, Field, FlagField, ParsedField, TextField
from attnviz.page.picture_question import PictureQuestion, sees_picture
from attnviz.page.session_fields import LongTextField
from attnviz.page.source_field import source_layers
from attnviz.page.text_list import MeasuredText, measured_texts, names_tokens, neutral_lines, text_lines, texts_field
from attnviz.page.text_question import (
    MARY,
    all_heads,
    chosen_head_field,
    named_positions,
    other_field,
    position_field,
    token_field,
    token_name,
)
from attnviz.pages.effects.corrected_alignment import Corrections, corrected, format_corrections, parse_corrections
from attnviz.sources.model import TRANSLATED

if TYPE_CHECKING:
    from attnviz.models.model import ModelInputs  # with huggingface_hub

HEADS_AND_WORDS, MANY_TEXTS, PATCHING, MORE = (
    *(N_("Heads and words"), N_("Many texts"), N_("Patching"), N_("More")),  # tabs
)
REGION = N_("Hide a region")  # the only tab of a model that sees pictures
LENS, CIRCUITS = N_("Logit lens"), N_("Circuits of a head")
WEIGHT, SHARE, EFFECT = N_("weight"), N_("share"), N_("effect")
DIFFERENCE, LOGIT, PROBABILITY = N_("difference of two logits"), N_("logit"), N_("probability")
DIVERGENCE, LOSS, COSINE = N_("KL of all tokens"), N_("loss of the text"), N_("cosine of the vector")
WITH_TOKEN, WITH_POSITION = (DIFFERENCE, LOGIT, PROBABILITY), (DIFFERENCE, LOGIT, PROBABILITY, DIVERGENCE, LOSS)
ABLATIONS: dict[str, AblationKind] = {
    N_("its mean over other texts"): "mean",
    N_("nothing"): "zero",
    N_("its output on another text"): "resample",
}
PATCHED: dict[str, PatchedPart] = {
    N_("the residual stream"): "residual",
    N_("the output of an MLP"): "mlp",
    N_("the output of a head"): "output",
    N_("the query of a head"): "query",
    N_("the key of a head"): "key",
    N_("the value of a head"): "value",
    N_("the weights of a head"): "pattern",
}
AT_POSITIONS = "mlp", "residual"  # parts that are patched at each position
NO_PATHS = N_("nothing")
RECEIVED: dict[str, ReceivedPart | None] = {
    NO_PATHS: None,
    N_("the query"): "query",
    N_("the key"): "key",
    N_("the value"): "value",
}
HIDDEN: dict[str, HowHidden] = {N_("gray"): "gray", N_("masked"): "masked"}
REGION_DIGITS = re.compile("[0-9a-f]{1,4096}")
OPENING_BOX = 0.5, 0.2, 0.8, 0.5  # of the image: where the first drawing has its sun
CHANGED_TEXTS = {
    MARY: "When Mary and John went to the store, Mary gave the ball to",
    EXAMPLE: EXAMPLE.replace("tired", "wide"),
    TRANSLATED: TRANSLATED.replace("car is", "cars are"),
}
MOST_TEXTS = 20  # other texts
TOKEN_VECTORS: dict[str, TokenVectors] = {N_("after the first layer"): "first layer", N_("as embeddings"): "embedding"}
COMPOSITIONS: dict[str, Composition] = {N_("the key"): "key", N_("the query"): "query", N_("the value"): "value"}
CELL = re.compile(r"([0-9]{1,4})\.([0-9]{1,5})")
LIKELIEST, ENTROPY, CHOSEN = N_("probability of the likeliest token"), N_("entropy"), N_("probability of the token")
EVERYWHERE = N_("all layers")


def measures(state: Any) -> Sequence[str]:
    """Returns what an effect on the model's output can be measured by. Raises ValueError if it has none."""
    model = state.source.model()
    if sees_picture(state):  # of which a region is hidden: the page says all that changes
        return (COSINE,)
    if model.outputs == "next token":
        return (*WITH_TOKEN, DIVERGENCE, *[LOSS][: len(state.run.predicting) - 1])
    if model.outputs == "labels":
        return (*WITH_TOKEN, DIVERGENCE) if len(state.run.labels) > 1 else (LOGIT,)
    if model.outputs == "sentence vector":
        return (COSINE,)
    raise value_error(
        "{name} gives neither a next token, nor labels, nor a vector of a sentence, so there is nothing to measure an "
        "effect by. Choose another model.",
        name=model.name,
    )


def parse_cell(text: str) -> tuple[int, int] | None:
    """Returns a layer and a position, which a link has as 12.9. Raises ValueError for another text."""
    if not text:
        return None
    if not (match := CELL.fullmatch(text)):
        raise value_error("A cell is written as a layer and a position, 12.9; this is {text}.", text=quoted(text))
    return int(match[1]), int(match[2])


def format_cell(cell: tuple[int, int] | None) -> str:
    """Returns a layer and a position as a link has them."""
    return "" if cell is None else f"{cell[0]}.{cell[1]}"


def parse_position(text: str) -> int | None:
    """Returns a position, which a link has as a whole number. Raises ValueError for another text."""
    if text and not re.fullmatch("[0-9]{1,5}", text):
        raise value_error("A position is a whole number; this is {text}.", text=quoted(text))
    return int(text) if text else None


def format_position(position: int | None) -> str:
    """Returns a position as a link has it."""
    return "" if position is None else str(position)


def tabs(state: Any) -> Sequence[str]:
    return (REGION,) if sees_picture(state) else (HEADS_AND_WORDS, MANY_TEXTS, PATCHING, MORE)


def heads_by_name(state: Any) -> dict[str, tuple[int, int]]:
    """Returns the heads by their names in menus and links; those of a picture take no pass with gradients."""
    if not sees_picture(state):
        return all_heads(state)
    layers = source_layers(state.source)
    names = layer_names([layer.id for layer in layers])
    return {
        head_option(name, head): (i, head)
        for i, (name, layer) in enumerate(zip(names, layers, strict=True))
        for head in range(layer.inputs.heads)
    }


def measures_token(state: Any) -> bool:
    return state.measure in WITH_TOKEN


def compared_numbers(state: Any) -> Sequence[str]:
    """Returns the numbers of heads that are compared; only logits are sums, of which a head has a share."""
    return (WEIGHT, SHARE, EFFECT) if state.measure in (DIFFERENCE, LOGIT) else (WEIGHT, EFFECT)


def compares_tokens(state: Any) -> bool:
    return bool(state.measure == DIFFERENCE)


def measures_many(state: Any) -> bool:
    return bool(state.inspect == MANY_TEXTS)


def known_ablations(state: Any) -> dict[str, AblationKind]:
    """Returns what an ablated head can write: nothing else where a model computes its attention by itself."""
    is_known = not sees_picture(state) and all(writer.call is not None for writer in state.run.linearized.ran[1].heads)
    return {name: kind for name, kind in ABLATIONS.items() if is_known or kind == "zero"}


def first_read(state: Any) -> str:
    """Returns the name of the token that a head looks at first: the likeliest one, or else the first of the text."""
    if sees_picture(state):
        return ""
    if state.source.model().outputs == "next token":
        return state.likeliest_name(0)
    return state.run.text_inputs.token_name(state.run.typed_token(state.text))


def has_two_first_layers(state: Any) -> bool:
    """Returns whether the model has an encoder and a decoder."""
    return bool(state.source.model().is_encoder_decoder)


def lens_colors(state: Any) -> Sequence[str]:
    """Returns what the colors of the logit lens may be."""
    return (LIKELIEST, ENTROPY, *[CHOSEN] * measures_token(state))


def parse_region(text: str) -> int | None:
    """Returns the cells of a region, as `Grid` has them, from hexadecimal digits; None of an empty text. Raises
    ValueError for anything else.

    Example:
        >>> parse_region("c0")
        192
    """
    if text and not REGION_DIGITS.fullmatch(text):
        raise value_error("A region is a number in hexadecimal digits; this is {text}.", text=quoted(text))
    return int(text, 16) if text else None


def format_region(cells: int | None) -> str:
    """Returns a region as a link has it."""
    return "" if cells is None else f"{cells:x}"


class EffectsState(PictureQuestion):
    """What an effect is measured by, and what is taken away or replaced."""

    inspect = ChoiceField(N_("Tab"), tabs)
    compares = FlagField(
        N_("Compare weight, share and effect"),
        parameter="compared",
        about=N_("Each head is a point, and those are listed whose numbers disagree most."),
    )
    more = ChoiceField(N_("More"), (LENS, CIRCUITS), parameter="effects-more")
    measure = ChoiceField(N_("Effect on"), measures, place="more", when=lambda state: not sees_picture(state))
    position = position_field(lambda state: state.measure in WITH_POSITION)
    token, other = token_field(measures_token), other_field(compares_tokens)
    ablation = ChoiceField(
        N_("Instead, it writes"),
        known_ablations,
        parameter="instead",
        about=N_(
            "**Its mean**: over all positions of the other texts, so that it still writes what it always writes. "
            "**Nothing**: zero ablation, after which later layers read what they have never read. **Its output on "
            "another text**: at the same position, on average over the texts."
        ),
    )
    other_texts = LongTextField(
        N_("Other texts, one on each line"), neutral_lines, when=lambda state: state.ablation != "zero"
    )
    many = texts_field(measures_many)
    circuit = FlagField(
        N_("How few heads are enough?"),
        when=measures_many,
        about=N_(
            "The measure with only some heads, and without them, on the half of the texts they were not found on."
        ),
    )
    hidden_from = ChoiceField(
        N_("Hidden from"),
        lambda state: {EVERYWHERE: None} | {name: i for i, name in enumerate(state.run.layers)},
        lambda _state: None,
    )
    hidden_from_head = ChoiceField(
        N_("Head"),
        lambda state: {N_("all heads"): None} | {str(head): head for head in range(state.run.heads[state.hidden_from])},
        lambda _state: None,
        when=lambda state: state.hidden_from is not None,
    )
    head = chosen_head_field(heads_by_name)
    across = ChoiceField(
        N_("Across"), compared_numbers, lambda state: compared_numbers(state)[-2], parameter="heads-across"
    )
    up = ChoiceField(N_("Up"), compared_numbers, lambda _state: EFFECT, parameter="heads-up")
    without_first = FlagField(
        N_("Without the first word"),
        True,
        about=N_(
            "The weight of a head is its largest, on a word that is not the first one: there many heads look when "
            "there is nothing to look for."
        ),
    )
    reads = TextField(N_("Looks at the token"), first_read)
    token_vectors = ChoiceField[TokenVectors](
        N_("Tokens are taken"),
        TOKEN_VECTORS,
        lambda state: "embedding" if has_two_first_layers(state) else "first layer",
        when=lambda state: not has_two_first_layers(state),
        parameter="tokens-as",
        about=N_(
            "**After the first layer**: as the first layer leaves them in a text of one token, which is nearer to what "
            "later layers read in a text. **As embeddings**: as the vocabulary has them."
        ),
    )
    composition = ChoiceField(
        N_("Read as a part of"),
        COMPOSITIONS,
        about=N_("What an earlier head has written is a part of the query, the key or the value of a later one."),
    )
    corrupted = TextField(
        N_("Corrupted text"),
        lambda state: CHANGED_TEXTS.get(state.text, state.text),
        about=N_(
            "The same text, in which something is changed that matters. Parts of the run of the text above, the "
            "clean run, are put into its run."
        ),
    )
    patched = ChoiceField(N_("Taken from the clean run"), PATCHED)
    corrections = ParsedField[Corrections](
        N_("Corrections"), parse_corrections, (), text=format_corrections, place="hidden"
    )
    aligned_token = ParsedField[int | None](
        N_("Token of the corrupted text"), parse_position, None, text=format_position, place="hidden"
    )
    received = ChoiceField(
        N_("Paths from heads before it into"),
        RECEIVED,
        parameter="paths",
        when=lambda state: state.patched not in AT_POSITIONS,
    )
    region = ParsedField[int | None](
        N_("Region"), parse_region, None, text=format_region, place="hidden", when=sees_picture,
        subject=lambda state: state.model,
    )  # fmt: skip
    hidden_as = ChoiceField[HowHidden](
        N_("Hidden as"),
        HIDDEN,
        when=sees_picture,
        about=N_(
            "**Gray**: their pixels get the mean color of the images that the model knows. **Masked**: no patch looks "
            "at them, in any layer."
        ),
    )
    looks_from = ChoiceField(
        N_("From"),
        lambda state: named_positions(state.shown_layer.inputs.query_tokens),
        lambda _state: 0,
        parameter="region-from",
        when=sees_picture,
        option_name=token_name,
    )
    lens_color = ChoiceField(N_("Colors"), lens_colors)
    lens_cell = ParsedField[tuple[int, int] | None](N_("Cell"), parse_cell, None, text=format_cell, place="hidden")

    tabs = (inspect,)

    @property
    def reads_text(self) -> bool:
        return not (measures_many(self) or sees_picture(self))  # which have texts of their own, or none

    @property
    def asks(self) -> bool:
        """Whether what is open depends on the question; a tab that does not is named here, as are texts that all say
        what is measured in them."""
        if measures_many(self):
            return not names_tokens(self.values.get("many", ""), 2 if compares_tokens(self) else 1)
        return self.inspect != REGION and (self.inspect != MORE or self.more != CIRCUITS)

    @property
    def predicting(self) -> tuple[str, ...]:
        """The tokens after which it may be asked what the model says; a loss is of at least one token after them."""
        return self.run.predicting[:-1] if self.measure == LOSS else self.run.predicting

    @property
    def opening_position(self) -> int:
        """The position of the question, or of a loss the first one."""
        return 0 if self.measure == LOSS or sees_picture(self) else super().opening_position

    @property
    def grid(self) -> PatchGrid:
        """The grid of the patches of the picture. Raises ValueError if it is not known."""
        return image_grid(source_layers(self.source))

    @property
    def hidden(self) -> Bool[np.ndarray, "rows columns"]:
        """The patches that are hidden; at first some above the middle. Raises ValueError if the region has more."""
        grid = self.grid
        if self.region is not None:
            return Grid(grid.rows, grid.columns, self.region).array()
        boxes = np.array([grid.place(patch) for patch in range(grid.rows * grid.columns)])
        middles = (boxes[:, :2] + boxes[:, 2:]) / 2
        inside = (middles > OPENING_BOX[:2]) & (middles < OPENING_BOX[2:])
        return inside.all(1).reshape(grid.rows, grid.columns)

    @property
    def shown_head(self) -> tuple[int, int]:
        """The head whose row is shown on the picture."""
        opening = self.source.opening
        return self.head or (min(opening.layer, len(source_layers(self.source)) - 1), opening.head)

    @property
    def shown_layer(self) -> Layer:
        """The layer of that head."""
        return source_layers(self.source)[self.shown_head[0]]

    @property
    def corrupted_inputs(self) -> "ModelInputs":
        """What the model reads of the corrupted text, with what the decoder has written after the text. Raises
        ValueError if it cannot read it."""
        from attnviz.models.model import ModelInputs  # with huggingface_hub

        model, arguments = self.source.model(), self.run.linearized.arguments
        with model.refusals():
            batch, tokens = model.text_inputs.encode(self.corrupted)
        count, limit = batch["input_ids"].shape[-1], most_tokens(model.model, MOST_BYTES)
        if count > limit:
            raise too_long_error(count, limit, "attnviz")
        written = {name: value for name, value in arguments.kwargs.items() if name.startswith("decoder_")}
        return ModelInputs(batch | written, tokens)

    @property
    def alignment(self) -> Alignment:
        """The tokens of the clean and of the corrupted text that belong together."""
        batches = self.run.linearized.arguments.kwargs, self.corrupted_inputs.batch
        clean, corrupted = (batch["input_ids"][0].tolist() for batch in batches)
        return corrected(alignment(clean, corrupted), self.corrections, (len(clean), len(corrupted)))

    @property
    def metric(self) -> NamedMetric:
        """What an effect is measured by."""
        return self._metric(self.position)

    def check_metric(self) -> None:
        """Raises ValueError if the model does not have what an effect is measured by, or if it is not finite."""
        linearized = self.run.linearized
        own = Measurement(self.metric, linearized.model, linearized.arguments).values(linearized.ran[0])
        if not own.isfinite().all():
            raise value_error(
                "The measure is {number} here, so that no effect on it can be measured. The model rules the token out, "
                "or its weights are damaged.",
                number=own[-1].item(),
            )

    def _metric(self, position: int, token_name: str = "", other_name: str = "") -> NamedMetric:
        if self.measure == COSINE:
            return Cosine("mean" if self.source.model().pooling == "mean" else "first")
        if self.measure == DIVERGENCE:
            return KL(position)
        if self.measure == LOSS:
            return Loss(position + 1)
        token, other = self.named_tokens(token_name or self.values["token"], other_name or self.values["other"])
        if self.measure == LOGIT:
            return Logit(token, position)
        if self.measure == PROBABILITY:
            return Probability(token, position)
        if token == other:
            raise value_error("{name} is compared with itself. Choose another one.", name=self.run.token_text(token))
        return LogitDifference(token, other, position)

    @property
    def lines(self) -> list[str]:
        """The other texts. Raises ValueError if there are none, too many or too long ones."""
        return text_lines(self.other_texts, MOST_TEXTS)

    @property
    def other_runs(self) -> Texts:
        """What the model reads of each of the other texts. Raises ValueError if it cannot read one."""
        model = self.source.model()
        return Texts(None, [model.encode(line).batch for line in self.lines])

    @property
    def measured_texts(self) -> list[MeasuredText]:
        """The texts in each of which effects are measured. Raises ValueError if there are none, too many or too long
        ones."""
        return measured_texts(self.many)

    @property
    def measured_runs(self) -> list[tuple[dict[str, Any], NamedMetric]]:
        """What the model reads, and what an effect is measured by: of the text, or of each of many texts. Raises
        ValueError if the model cannot read one, or has no token that is named."""
        if not measures_many(self):
            return [(self.run.linearized.arguments.kwargs, self.metric)]
        model = self.source.model()
        return [(model.encode(one.text).batch, self._metric_of(one)) for one in self.measured_texts]

    def _metric_of(self, text: MeasuredText) -> NamedMetric:
        """Returns what an effect is measured by after the last token of a text."""
        return self._metric(0 if self.measure == LOSS else -1, text.token, text.other)


def measure_words(state: EffectsState) -> list[tuple[str, Field[Any]]]:
    """Returns what is measured as a sentence: words, and the fields after them."""
    token, position = EffectsState.token, (_("after"), EffectsState.position)
    words: dict[str, list[tuple[str, Field[Any]]]] = {
        DIFFERENCE: [(_("Effect on the logit of"), token), (_("above that of"), EffectsState.other), position],
        LOGIT: [(_("Effect on the logit of"), token), position],
        PROBABILITY: [(_("Effect on the probability of"), token), position],
        DIVERGENCE: [(_("Effect on all that is said after"), EffectsState.position)],
        LOSS: [(_("Effect on the loss of the text after"), EffectsState.position)],
    }
    fields = words.get(state.values.get("measure", ""), [])
    # Each of many texts is measured after its last token.
    return [each for each in fields if each[1] is not EffectsState.position] if measures_many(state) else fields
