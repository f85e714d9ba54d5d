"""A source whose text a language model writes, token by token."""

from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from attnviz.base.language import value_error
from attnviz.base.text import check_text
from attnviz.base.turns import HEAVY_WORK, turn
from attnviz.models import SMOLLM2, TRANSLATOR
from attnviz.models.drawings import SUNSET, Drawing
from attnviz.models.sampling import Sampler
from attnviz.models.token_choices import TokenChoice
from attnviz.sources.model import ModelSource
from attnviz.sources.source import Opening
from attnviz.sources.upload import File
from attnviz.trace import Trace

if TYPE_CHECKING:
    from attnviz.models.chat import ChatMessage
    from attnviz.models.model import LoadedModel
    from attnviz.models.written_text import OnStep, WrittenText

LIKELIEST = Sampler()
PROMPT = "The capital of France is Paris. The capital of Italy is"


@dataclass(frozen=True, repr=False)
class Written(ModelSource):
    """A text that a language model writes after a prompt, with the attention of each token."""

    prompt: str = PROMPT
    name: str = SMOLLM2
    is_chat: bool = False
    system: str = ""  # message before the prompt of a chat; empty: that of the model's own template
    sampling: Sampler = LIKELIEST
    tokens: int = 9
    choices: tuple[TokenChoice, ...] = ()
    earlier: tuple[str, ...] = ()  # messages of a chat before the prompt, by the user and the model in turn
    image: File | None = None  # that the prompt is about, for a model that also sees
    drawing: Drawing = SUNSET  # without one

    @property
    def opening(self) -> Opening:
        """The head of the default model that looks at what came after the same words before, in the example; of the
        translator, that which looks at the English words that are translated."""
        if self.name == TRANSLATOR:
            return Opening(layer=1, head=1)
        if self.name != SMOLLM2:
            return Opening()
        return Opening(layer=17, head=5, query=11 if self.prompt == PROMPT and not self.is_chat else None)

    @property
    def picture(self) -> bytes | None:
        return super().picture if self.model().puts_images_into_texts else None

    @property
    def work(self) -> int:
        return HEAVY_WORK + 1

    def model(self) -> "LoadedModel":
        """Returns the model. Raises ValueError if it cannot be loaded, or does not write."""
        model = super().model()
        if model.outputs != "next token":
            raise value_error(
                "{name} reads, and does not write: it has no probabilities of a next token. Choose a language model, "
                "such as {smollm2}.",
                name=model.name,
                smollm2=SMOLLM2,
            )
        return model

    @property
    def messages(self) -> tuple["ChatMessage", ...]:
        """The messages of the chat that the model answers."""
        from attnviz.models.chat import ChatMessage

        system = [ChatMessage("system", self.system)] if self.system.strip() else []
        return (*system, *map(ChatMessage, cycle(("user", "assistant")), (*self.earlier, self.prompt)))

    def write(self, progress: "OnStep" = lambda share, text: None) -> "WrittenText":
        """Returns the text; calls `progress` with the share that is written, and the text so far, after each token.

        Raises ValueError if the model cannot be loaded, or cannot read the prompt.
        """
        from attnviz.models.written_text import writers_of

        prompt, model = check_text(self.prompt), self.model()
        return writers_of(model).write(
            self.tokens, model, self.messages if self.is_chat else prompt, self.sampling, self.choices, progress,
            self.picture,
        )  # fmt: skip

    def layers(self) -> Trace:
        """Returns the attention of every layer. Raises ValueError as `write` does."""
        with turn(self.work):
            return self.write().trace
