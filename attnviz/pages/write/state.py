"""What a link to Write says."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, get_args

from attnviz.base.cached_property import cached_property
from attnviz.base.language import N_, value_error
from attnviz.base.settings import written_tokens
from attnviz.figures.sentences import ARROW
from attnviz.layer import Layer
from attnviz.models import SMOLLM2, TRANSLATOR
from attnviz.models.drawings import Drawing
from attnviz.models.earlier_messages import format_messages, parse_messages
from attnviz.models.sampling import Sampler
from attnviz.models.token_choices import TokenChoice, format_choices, parse_choices
from attnviz.page.blocks import ScoreLinks
from attnviz.page.fields import ABOUT_TEMPERATURE, ChoiceField, FlagField, ModelField, NumberField, ParsedField
from attnviz.page.head_state import COLORS_FIELD, query_name, query_options
from attnviz.page.long_map_state import LongMapState
from attnviz.page.result_cache import result_cache
from attnviz.page.selection import Selection
from attnviz.page.session_fields import FileField, LongField, LongTextField
from attnviz.page.source_field import HeadField, LayerField
from attnviz.pages.why.links import WhyText, score_links, text_of_writer
from attnviz.sources.model import PICTURE_MB, PICTURES, example_text, load_model
from attnviz.sources.written import PROMPT, Written

if TYPE_CHECKING:
    from attnviz.models.written_text import WrittenText

CHAT_TOKENS = 48  # of an answer in a chat at first
OF_SAMPLING: dict[str, Any] = {"when": lambda state: state.next_token, "place": "more"}
ABOUT_TOP_K = N_("The number of the likeliest tokens among which one is drawn; 0: all.")
ABOUT_TOP_P = N_("Only the likeliest tokens are drawn from, which have this share of the probability together.")
ABOUT_SEED = N_("The same seed draws the same tokens again.")
ABOUT_LENGTH = N_("How many tokens are written at most.")
MOST_BRANCHES = 12
BETWEEN_BRANCHES = "~"
TEXT_MODELS = (SMOLLM2, TRANSLATOR)  # of which it is known without loading them
LIKELIEST, RANDOM = N_("The likeliest"), N_("At random")

Branch = tuple[TokenChoice, ...]


def parse_branches(text: str) -> tuple[Branch, ...]:
    """Returns the choices of each branch of a link, () if no branch has any. Raises ValueError for any other text, or
    too many branches.

    Example:
        >>> len(parse_branches("0.7042~0.7042-5.260~"))
        3
    """
    branches = tuple(dict.fromkeys(map(parse_choices, text.split(BETWEEN_BRANCHES)))) if text else ()
    if len(branches) > MOST_BRANCHES:
        raise value_error("There are more than {count} branches.", count=MOST_BRANCHES)
    return branches if any(branches) else ()


def format_branches(branches: Sequence[Branch]) -> str:
    """Returns the text of branches in a link."""
    return BETWEEN_BRANCHES.join(map(format_choices, branches))


def decoder_layers(text: "WrittenText") -> list[Layer]:
    """Returns the layers whose queries are what the decoder has read; the row of each written token says what was read
    last and what was written then, such as “is → Paris”."""
    read = text.prompt_length - text.encoder_length
    layers = []
    for layer in text.trace:
        queries = layer.inputs.query_tokens
        if len(queries) == read + len(text.steps) - 1 and layer.id.stack != "encoder":
            written = (step.token.strip() or step.token for step in text.steps)
            names = (*queries[: read - 1], *map(ARROW.join, zip(queries[read - 1 :], written, strict=True)))
            named = replace(layer.inputs, query_tokens=names)  # type: ignore[type-var]
            layers.append(replace(layer, inputs=named))
    return layers


def hidden_tokens(text: "WrittenText") -> list[int]:
    """Returns the positions of the tokens that the template of a chat adds, and of the one that ends an answer; none
    where it is not known which tokens are of the messages."""
    read = text.roles[: text.prompt_length]
    if not any(read):
        return []
    ends = text.steps[-1].end == "end token"
    return [*(i for i, role in enumerate(read) if not role), *([len(text.tokens) - 1] if ends else [])]


def opening_row(source: Written, text: "WrittenText") -> int | None:
    """Returns the row of the map that is pinned at first: that of the last chosen token, or of the example, if any."""
    row, read = source.opening.query, text.prompt_length - text.encoder_length
    if source.choices:
        row = read - 1 + source.choices[-1].position
    return row if row is not None and row < read - 1 + len(text.steps) else None


def prompt_of(state: Any) -> Hashable:
    """Returns what the model reads, and in which form: what is chosen for one text is not chosen for another."""
    return tuple(state.values[name] for name in ("model", "prompt", "image", "drawing", "chat", "system", "earlier"))


def sees_pictures(state: Any) -> bool:
    """Returns whether the model also sees a picture; not, where it cannot be loaded, which is said elsewhere."""
    try:
        return state.model not in TEXT_MODELS and load_model(state.model).puts_images_into_texts
    except ValueError:
        return False


def opening_length(state: Any) -> int:
    return min(CHAT_TOKENS if state.chat else Written.tokens, written_tokens())


class WriteState(LongMapState):
    """A model, a prompt, how the next token is chosen, and the head whose attention is shown."""

    model = ModelField(SMOLLM2, "writer", needs_text=True)
    prompt = LongTextField(N_("Prompt"), lambda state: example_text(state.model, PROMPT), place="side")
    drawing = ChoiceField[Drawing](
        N_("Drawing"), get_args(Drawing), when=sees_pictures,
        parameter="write-picture", place="side", about=N_("The drawing that the model sees if no image is uploaded."),
    )  # fmt: skip
    image = FileField(
        N_("Image"), PICTURES, PICTURE_MB, when=sees_pictures, parameter="write-image", place="side",
        about=N_("What the prompt is about. It is prepared as the model’s own image processor does."),
    )  # fmt: skip
    chat = FlagField(
        N_("As a chat"),
        place="more",
        about=N_("The prompt is put into the form in which the model was trained to answer: with roles and marks."),
    )
    system = LongTextField(
        N_("System message"),
        "",
        when=lambda state: state.chat,
        place="more",
        about=N_("What the model reads before the prompt."),
    )
    earlier = LongField[tuple[str, ...]](
        N_("Earlier messages"), parse_messages, (), text=format_messages, when=lambda state: state.chat, place="hidden"
    )
    template_tokens = FlagField(
        N_("Template tokens"),
        when=lambda state: state.chat,
        place="more",
        about=N_("Shows the tokens that the model's chat template puts around each message."),
    )
    next_token = ChoiceField(
        N_("Next token"),
        {LIKELIEST: False, RANDOM: True},
        place="more",
        about=N_("The likeliest token, or one drawn at random by the probabilities."),
    )
    temperature = NumberField(
        N_("Temperature"), 1.0, 0.05, 4.0, 2, parameter="write-temperature", about=ABOUT_TEMPERATURE, **OF_SAMPLING
    )
    top_k = NumberField(N_("Top k"), 0, 0, 1_000, about=ABOUT_TOP_K, **OF_SAMPLING)
    top_p = NumberField(N_("Top p"), 1.0, 0.01, 1.0, 2, about=ABOUT_TOP_P, **OF_SAMPLING)
    seed = NumberField(N_("Seed"), 1, 0, 999_999, parameter="write-seed", about=ABOUT_SEED, **OF_SAMPLING)
    choices = ParsedField[Branch](
        N_("Chosen tokens"), parse_choices, (), text=format_choices, subject=prompt_of, place="hidden"
    )
    branches = ParsedField[tuple[Branch, ...]](
        N_("Branches"), parse_branches, (), text=format_branches, subject=prompt_of, place="hidden"
    )
    length = NumberField(
        N_("Tokens"), opening_length, 1, written_tokens(), subject=prompt_of, place="top", about=ABOUT_LENGTH
    )
    layer, head = LayerField(), HeadField()
    colors = COLORS_FIELD
    quantity, scale, find = LongMapState.quantity, LongMapState.scale, LongMapState.find
    part_of_queries, part_of_keys = LongMapState.part_of_queries, LongMapState.part_of_keys
    pinned = ChoiceField[int | None](
        N_("Pinned query"),
        query_options,
        lambda state: state.opening_row,
        option_name=query_name,
        subject=prompt_of,
        place="more",
        about=N_("The row of the map and the words that it looks at; without one, those of the last word."),
    )

    @property
    def sampling(self) -> Sampler:
        """How the next token is chosen."""
        if not self.next_token:
            return Sampler()
        return Sampler(self.temperature, int(self.top_k), self.top_p, int(self.seed))

    @cached_property
    def source(self) -> Written:  # type: ignore[override]
        """The text that the model writes."""
        return Written(
            self.prompt, self.model, self.chat, self.system, self.sampling, int(self.length), self.choices,
            self.earlier, self.image, self.drawing,
        )  # fmt: skip

    @cached_property
    def text(self) -> "WrittenText":
        """What the model has written. Raises ValueError if it cannot be loaded, or cannot read the prompt."""
        return result_cache().growing(self.source.write, "written text", self.source, work=self.source.work)

    def with_text(self, text: "WrittenText") -> Self:
        """Returns this state while its text is being written: of the fields those that it has."""
        state = self.partial(**self.values)
        object.__setattr__(state, "text", text)
        return state

    @cached_property
    def layers(self) -> Sequence[Layer]:
        return decoder_layers(self.text)

    @cached_property
    def selection(self) -> Selection:
        """The head in the text so far, which is that of the same source with fewer tokens."""
        return replace(
            super().selection,
            source=replace(self.source, tokens=len(self.text.steps)),
            colors=self.colors,
            viewport=self.viewport,
            cell_colors=self.cell_colors,
        )

    @property
    def row(self) -> int:
        """The row of the map that is shown: the pinned one, or that of the last written token that is not hidden."""
        pinned, text = self.values.get("pinned"), self.text
        if pinned is not None:
            return int(pinned)
        shown = {*range(text.prompt_length, len(text.tokens))} - {*self.hidden_tokens}
        return max(shown, default=text.prompt_length) - 1 - text.encoder_length

    @property
    def hidden_tokens(self) -> list[int]:
        """The positions of the tokens that the text is shown without, but those of a picture."""
        return [] if self.template_tokens else hidden_tokens(self.text)

    @cached_property
    def why_text(self) -> WhyText | None:
        """The whole text, where Why can be asked about it."""
        return text_of_writer(self.source, self.text) if self.text.ending else None

    @property
    def score_links(self) -> ScoreLinks | None:
        """Links to why the head looks somewhere, where Why can be asked."""
        return score_links(self.why_text, self.selection.layer, self.selection.head)

    @property
    def opening_row(self) -> int | None:
        """The row that is pinned at first."""
        return opening_row(self.source, self.text)
