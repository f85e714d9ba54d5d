"""A number that a model computes as a sum, whose terms a reader opens one after the other."""

from dataclasses import replace
from heapq import heappop, heappush
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
from attnviz.notebook.viewer import FILE_BYTES, HtmlOutput, unique_key
from attnviz.notebook.why_content import sum_content, term_content, why_content
from attnviz.token_texts import TokenTexts
from attnviz.views.why_answer import WhyAnswer
from attnviz.views.why_sentences import answer_sentence, question_sentence, sum_sentence
from attnviz.views.why_tables import TERMS, term_rows

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with huggingface_hub

FILE_SUMS, MOST_WAYS = 48, 24  # sums that a file holds, and the ways from one to others that count


def why(
    model: "nn.Module | LoadedModel | str | Path",
    batch: Any,
    of: Metric | None = None,
    *,
    tokens: TokenTexts = (),
    decoder_tokens: TokenTexts = (),
    most_bytes: int = MOST_BYTES,
) -> "WhyViewer":
    """Returns a viewer of a number that a model computes as a sum over what wrote to its residual stream: the shares of
    heads, MLPs and embeddings, what a head has read, and what it found there, or why it looks there, as sums again.

    `model` and `batch` are those of `attnviz.attribute`, with `tokens` and `decoder_tokens` as for `attnviz.capture`:
    the texts of the tokens, or the model's tokenizer, with which `batch` may be a text. A model of `attnviz.models`, or
    its name, reads a text, too. `of` is the number: `Logit`, `LogitDifference`, `Score` or `Activation` of
    `attnviz.attribution`; by default the logit of the likeliest next token, or label, above that of the second.

    `most_bytes` is that of `attribute`. With anywidget installed, clicks are answered by Python, and `trail` and `term`
    are shared with it. Raises ValueError as `attribute` does.

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
        run = named_pass(model, batch, tokens, decoder_tokens, most_bytes)
    elif isinstance(batch, str):
        from attnviz.models.text_attribution import read_text

        run = read_text(model, batch, most_bytes=most_bytes)
    else:
        raise ValueError(f"A loaded model reads a text, and this is a {type(batch).__name__}. Give a text.")
    return sum_viewer(run, likeliest_metric(run) if of is None else of)


def sum_viewer(run: NamedPass, metric: Metric) -> "WhyViewer":
    """Returns a viewer of a number that a pass has computed: a widget if anywidget is installed."""
    metric = run.without_padding(metric)
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

    def file_html(self) -> Markup:
        """Returns the HTML for a page: the sum that is shown with all its terms, the sums before it, and those that are
        reached with the fewest steps, FILE_SUMS in all, with their largest terms. What is not there is not offered."""
        return self._html_of_sums(FILE_BYTES, FILE_SUMS)

    def _html(self, limit: int, wait: int = 0) -> Markup:
        """Returns the HTML with the sum that is shown, its largest terms, and the sums before it."""
        return self._html_of_sums(limit, 0, wait)

    def _html_of_sums(self, limit: int, sums: int, wait: int = 0) -> Markup:
        """Returns the HTML with at least the sums to the end of the trail, and at most `sums`."""
        steps = self.answer.trail
        needed = [format_trail(steps[:count]) for count in range(len(steps), -1, -1)]
        waiting = [(-1, i, trail) for i, trail in enumerate(needed)]  # by the number of steps, and the rank among ways
        contents: dict[str, str] = {}
        while waiting and len(contents) < max(sums, len(needed)):
            _depth, _rank, trail = heappop(waiting)
            try:
                content = {} if trail in contents else self._sum_content(trail, with_grid=bool(sums) and not contents)
            except ValueError:  # the mask forbids that its head looks there
                content = {}
            if not content:
                continue
            text = html_page.encoded(content)
            if contents and sum(map(len, contents.values())) + len(text) > limit:
                break
            contents[trail] = text
            for rank, way in enumerate(_ways(content)):
                heappush(waiting, (len(parse_trail(way)), rank, way))
        data = {"contents": contents, "chosen": {"trail": self.trail, "term": self.term}}
        return html_page.fragment(self.key, data, text=" ".join(self._sentences), wait=wait)

    def _sum_content(self, trail: str, *, with_grid: bool) -> dict[str, Any]:
        """Returns what is shown of a sum, and of its largest terms; `with_grid` also of the others in the grid."""
        answer = self._answer_to(trail, "")
        of_sum = sum_content(answer, self.key)
        terms = [format_term(SumTerm.from_share(row.term)) for row in term_rows(answer)]
        if with_grid:
            terms += filter(None, of_sum["charts"]["grid"]["places"])
        if trail == self.trail:
            terms.append(self.term)
        by_term = {each: term_content(replace(answer, chosen=parse_term(each)), self.key) for each in ("", *terms)}
        return {"sum": of_sum, "terms": by_term}


def _ways(content: dict[str, Any]) -> list[str]:
    """Returns the trails that a sum opens, at most MOST_WAYS: along its largest share, and of each of its largest terms
    what its head found, and why it looked, where it took most."""
    of_sum, terms = content["sum"], [*content["terms"].values()][: TERMS + 1]
    first = [term["sources"]["rows"][0] for term in terms if term["sources"]]
    links = [of_sum["next"]] if of_sum["next"] else []
    links += [link for column in (3, 4) for row in first for link in row[column]]
    return [*dict.fromkeys(values["trail"] for _text, values in links)][:MOST_WAYS]
