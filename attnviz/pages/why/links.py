"""Links to Why from the weights and the next tokens that other pages show."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from attnviz.analysis.head_maps import HeadChoice
from attnviz.attribution.linearized_pass import most_tokens
from attnviz.attribution.named_pass import DECODER, MOST_BYTES
from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import numbered_tokens
from attnviz.base.link import Link
from attnviz.layer import Layer, LayerId
from attnviz.mechanism import Mechanism
from attnviz.models.text_inputs import Tokens
from attnviz.page.blocks import ScoreLinks
from attnviz.page.fields import Field
from attnviz.page.selection import Selection
from attnviz.page.session_fields import text_note
from attnviz.page.source_field import source_layers
from attnviz.pages.heads.links import in_general
from attnviz.pages.why.state import LOGIT_QUESTION, SCORE_QUESTION, WhyState
from attnviz.sources import Model, Source
from attnviz.sources.written import Written

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel, ModelInputs  # with huggingface_hub
    from attnviz.models.written_text import WrittenText


@dataclass(frozen=True, eq=False)
class WhyText:
    """A text of which Why can be asked, and what the decoder of an encoder–decoder has written."""

    model: "LoadedModel"
    name: str  # of the model in links
    text: str
    written: str
    inputs: "ModelInputs"  # as Why encodes the text
    unread: int = 0  # tokens at its end that the model has written, and not read
    drawing: str = ""  # of a model that sees pictures, in place of the text

    def token_names(self, stack: str) -> list[str]:
        """Returns the tokens of a stack of layers as the menus of Why name them."""
        is_target = stack == DECODER and self.inputs.target is not None
        return _names(self.inputs.target.tokens if is_target else self.inputs.source.tokens)  # type: ignore[union-attr]

    @cached_property
    def predicting(self) -> list[str]:
        """The tokens after each of which the model gives a next one, as the menu of Why names them."""
        return self.token_names(DECODER)

    @property
    def ids(self) -> list[int]:
        """The tokens after each of which the model gives a next one."""
        is_target = self.inputs.target is not None
        return self.inputs.batch["decoder_input_ids" if is_target else "input_ids"][0].tolist()

    def link(self, question: str, *values: tuple[Field[Any], str]) -> Link:
        """Returns the link of a question about the text, with these values of fields."""
        written = ((WhyState.written, self.written),) if self.written else ()
        read = ((WhyState.drawing, self.drawing),) if self.drawing else ((WhyState.text, self.text), *written)
        own = (WhyState.model, self.name), *read, (WhyState.question, question)
        return tuple((field.parameter, value) for field, value in (*own, *values))

    def score_link(self, layer: LayerId, head: int, query: int, key: int) -> Link:
        """Returns the link to why a head of a layer of self-attention looks from a query at a key."""
        names = self.token_names(layer.stack)
        place = (WhyState.layer, str(layer)), (WhyState.head, str(head))
        return self.link(SCORE_QUESTION, *place, (WhyState.query, names[query]), (WhyState.key, names[key]))

    def position_link(self, position: int) -> Link:
        """Returns the link to what the model says after a position; of another model that it does not write, to what it
        says."""
        after = [(WhyState.position, self.predicting[position])] if self.model.outputs == "next token" else []
        return self.link(LOGIT_QUESTION, *after)

    def token_link(self, token: int, other: int, position: int = -1) -> Link:
        """Returns the link to why the model says a token after a position rather than another token; of a classifier,
        a label rather than another label."""
        labels, name = self.model.labels, self.model.text_inputs.token_name
        if self.model.outputs == "labels":
            return self.link(LOGIT_QUESTION, (WhyState.token, labels[token]), (WhyState.other, labels[other]))
        after = (WhyState.position, self.predicting[position])
        return self.link(LOGIT_QUESTION, after, (WhyState.token, name(token)), (WhyState.other, name(other)))


def text_of_model(source: Source) -> WhyText | None:
    """Returns the text that a model reads, or the drawing that it sees, or None if Why cannot be asked about it: it
    reads one text, and what its decoder has written."""
    if type(source) is not Model:  # a subclass changes the model
        return None
    if source.model().modality == "picture":
        return _of_drawing(source)
    model, written = source.model(), source.pair if source.pair.strip() else ""
    reads_text = model.modality == "text" or (source.text_alone and model.reads_text_alone)
    if not reads_text or (written and not model.is_encoder_decoder):
        return None
    return _encoded(model, source.name, source.text, written)


def text_of_writer(source: Written, text: "WrittenText") -> WhyText | None:
    """Returns a text with all that a model has written, or None if Why cannot be asked about it: not every text is
    encoded as the tokens that were written."""
    from attnviz.models.written_text import encode_prompt  # with huggingface_hub

    if source.picture is not None:  # which Why does not show
        return None
    model, steps = source.model(), [step.token_id for step in text.steps]
    batch = encode_prompt(model, source.messages if source.is_chat else source.prompt)[0]
    before = [model.text_inputs.start_token()] if model.is_encoder_decoder else batch["input_ids"][0].tolist()
    # The last token may be one that no text has. What a tokenizer adds itself is left out, but not the marks of a chat.
    for ids, skips in product(filter(None, (steps, steps[:-1])), (True, False)):
        decoded = str(model.tokenizer.decode(before + ids, skip_special_tokens=skips))
        texts = (source.prompt, decoded) if model.is_encoder_decoder else (decoded, "")
        read = _encoded(model, source.name, *texts, unread=len(ids) - len(steps) + 1)
        if read and read.ids == before + ids:
            return read
    return None


def selection_links(selection: Selection) -> ScoreLinks | None:
    """Returns the links of the selected head of a model, or None if Why cannot be asked about it, or if its weights are
    not those of the model, because its mechanism was changed."""
    read = text_of_model(selection.source)
    if read is None or selection.layer.mechanism != source_layers(selection.source)[selection.index].mechanism:
        return None
    return score_links(read, selection.layer, selection.head)


def score_links(read: WhyText | None, layer: Layer, head: HeadChoice) -> ScoreLinks | None:
    """Returns the links of a head of a layer that has read a text, or None where Why cannot be asked about it."""
    if read is None:
        return None
    stack = layer.id.stack
    queries, keys = read.token_names(stack), read.token_names("encoder" if layer.id.cross else stack)
    unread = len(queries) - layer.inputs.queries, len(keys) - layer.inputs.keys
    is_unique = not layer.id.sub_indices and layer.id.occurrence is None  # others have other names on Why
    if not (isinstance(head, int) and isinstance(layer.mechanism, Mechanism) and is_unique):
        return None
    if not {*unread} <= {0, read.unread}:
        return None
    of_head = read.link(SCORE_QUESTION, (WhyState.layer, layer.name), (WhyState.head, str(head)))
    parameters = WhyState.query.parameter, WhyState.key.parameter
    general = None if read.drawing else in_general(read.name, layer.name, head)  # which is asked of texts
    return ScoreLinks(of_head, parameters, queries, keys, general)


def _of_drawing(source: Model) -> WhyText | None:
    from attnviz.models.model import ModelInputs  # with huggingface_hub

    if source.image is not None:  # which no link has
        return None
    model, tokens = source.model(), source_layers(source)[0].inputs.query_tokens
    if len(tokens) > most_tokens(model.model, MOST_BYTES):
        return None
    return WhyText(model, source.name, "", "", ModelInputs({}, Tokens(tokens)), drawing=source.drawing)


def _encoded(model: "LoadedModel", name: str, text: str, written: str = "", unread: int = 0) -> WhyText | None:
    if text_note(text, written):
        return None
    try:
        inputs = model.encode(text, written)
    except ValueError:  # which the page itself reports
        return None
    is_short = inputs.batch["input_ids"].shape[-1] <= most_tokens(model.model, MOST_BYTES)
    return WhyText(model, name, text, written, inputs, unread) if is_short else None


def _names(tokens: Sequence[str]) -> list[str]:
    return numbered_tokens(range(len(tokens)), tokens)
