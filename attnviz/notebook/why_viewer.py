"""A number that a model computes as a sum, whose terms a reader opens one after the other."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from torch import nn

from attnviz.attribution.attribution import Attribution
from attnviz.attribution.linearized_pass import MOST_BYTES
from attnviz.attribution.metrics import Logit, LogitDifference, Metric
from attnviz.attribution.named_pass import NamedPass, named_pass
from attnviz.attribution.sum_term import SumTerm, format_term, parse_term
from attnviz.attribution.trail import format_trail, parse_trail
from attnviz.notebook import html_page
from attnviz.notebook.viewer import HtmlOutput, unique_key
from attnviz.notebook.why_content import why_content
from attnviz.token_texts import TokenTexts
from attnviz.views.why_answer import WhyAnswer
from attnviz.views.why_sentences import answer_sentence, question_sentence, sum_sentence
from attnviz.views.why_tables import term_rows

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with huggingface_hub


def why(
    model: "nn.Module | LoadedModel | str | Path",
    batch: Any,
    of: Metric | None = None,
    *,
    tokens: TokenTexts = (),
    decoder_tokens: TokenTexts = (),
) -> "WhyViewer":
    """Returns a viewer of a number that a model computes as a sum over what wrote to its residual stream: the shares of
    heads, MLPs and embeddings, what a head has read, and what it found there, or why it looks there, as sums again.

    `model` and `batch` are those of `attnviz.attribute`, with `tokens` and `decoder_tokens` as for `attnviz.capture`:
    the texts of the tokens, or the model's tokenizer, with which `batch` may be a text. A model of `attnviz.models`, or
    its name, reads a text, too. `of` is the number: `Logit`, `LogitDifference`, `Score` or `Activation` of
    `attnviz.attribution`; by default the logit of the likeliest next token, or label, above that of the second.

    With anywidget installed, clicks are answered by Python, and `trail` and `term` are shared with it. Raises
    ValueError as `attnviz.attribute` does.

    Example:
        >>> why("attnviz/translator-en-fr", "the cat sleeps .").attribution.error < 1e-4
        True
    """
    if isinstance(model, str | Path):
        from attnviz.models import load

        model = load(model)
    if isinstance(model, nn.Module):
        if isinstance(batch, str) and callable(tokens) and hasattr(tokens, "convert_ids_to_tokens"):
            batch = tokens(batch, return_tensors="pt")
        run = named_pass(model, batch, tokens, decoder_tokens)
    elif isinstance(batch, str):
        from attnviz.models.text_attribution import read_text

        run = read_text(model, batch, most_bytes=MOST_BYTES)
    else:
        raise ValueError(f"A loaded model reads a text, and this is a {type(batch).__name__}. Give a text.")
    metric = likeliest_metric(run) if of is None else of
    if find_spec("anywidget") is None:
        return WhyViewer(run, metric)
    from attnviz.notebook.why_widget import WhyWidget

    return WhyWidget(run, metric)


def likeliest_metric(run: NamedPass) -> Metric:
    """Returns the logit of the likeliest token, or label, above that of the second. Raises ValueError if a model has no
    logits."""
    position = run.opening_position
    first, *others = [token for token, _probability in run.likeliest(position, 2)]
    return LogitDifference(first, others[0], position) if others else Logit(first, position)


class WhyViewer(HtmlOutput):
    """A number as a sum, the terms that have been opened, and the term that is shown.

    `trail` and `term` are texts, as in links to the page Why: a trail has steps such as "value.23.3.13.9", between them
    "-", and a term is "23.3.13", "mlp.28.13" or "word.9"; empty for the head with the largest share. A notebook shows
    it as HTML that needs no kernel. `WhyWidget` is the same with a kernel.
    """

    trail: str
    term: str

    def __init__(self, run: NamedPass, metric: Metric) -> None:
        self.run, self.metric, self.key = run, metric, unique_key()
        self.trail, self.term = "", ""
        _ = self.answer  # refused here, if it is not a sum

    @property
    def answer(self) -> WhyAnswer:
        """The sums from the question to the end of the trail, and the term that is shown."""
        return self._answer_to(self.trail, self.term)

    @property
    def attribution(self) -> Attribution:
        """The sum that is shown."""
        return self.answer.attribution

    def __repr__(self) -> str:
        return f"{type(self).__name__}({' '.join(self._sentences)})"

    @property
    def _sentences(self) -> list[str]:
        shown = self.answer
        return [question_sentence(shown), answer_sentence(shown), sum_sentence(shown)]

    def _answer_to(self, trail: str, term: str) -> WhyAnswer:
        """Returns the answer of a state. Raises ValueError if it is not one, or has no sum."""
        steps, chosen = parse_trail(trail), parse_term(term)
        return WhyAnswer(self.run, steps, chosen, self.run.sums(self.metric, steps))

    def _content(self, trail: str, term: str) -> dict[str, Any]:
        return why_content(self._answer_to(trail, term), self.key)

    def _html(self, limit: int, wait: int = 0) -> Markup:
        """Returns the HTML with the state that is shown, the largest terms of its sum, and the sums before it."""
        shown = self.answer
        rows = [(self.trail, format_term(SumTerm.from_share(row.term))) for row in term_rows(shown)]
        before = [(format_trail(shown.trail[:count]), "") for count in range(len(shown.trail) + 1)]
        contents: dict[str, str] = {}
        for trail, term in dict.fromkeys([(self.trail, self.term), *before, *rows]):
            text = html_page.encoded(self._content(trail, term))
            if contents and sum(map(len, contents.values())) + len(text) > limit:
                break
            contents[f"{trail} {term}"] = text
        data = {"contents": contents, "chosen": {"trail": self.trail, "term": self.term}}
        return html_page.fragment(self.key, data, text=" ".join(self._sentences), wait=wait)
