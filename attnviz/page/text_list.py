"""A list of texts on a page, each with what it says and rather than what."""

from collections.abc import Callable, Sequence
from textwrap import shorten
from typing import Any, NamedTuple

from attnviz.attribution.metrics import Logit, LogitDifference
from attnviz.attribution.named_pass import NamedPass
from attnviz.base.formatting import grouped
from attnviz.base.language import N_, _, value_error
from attnviz.base.link import Link
from attnviz.effects.neutral_texts import NEUTRAL_TEXTS
from attnviz.figures.shares import for_and_against
from attnviz.models import SMOLLM2, TRANSLATOR
from attnviz.page.session_fields import LongTextField

MOST_MEASURED = 50  # texts in each of which something is measured
MOST_CHARACTERS = 2_000  # of each text
BETWEEN = "|"  # a text, what is said and what it is compared with, in a line
NAMES = (
    *(("Mary", "John"), ("Tom", "Lisa"), ("Anna", "Paul"), ("Peter", "Sarah"), ("Jack", "Emma")),
    *(("Kate", "Mark"), ("David", "Laura"), ("Jane", "Robert"), ("Adam", "Alice"), ("Lucy", "James")),
)
PLACES = (("store", "ball"), ("park", "book"), ("station", "key"), ("school", "letter"), ("market", "apple"))


class MeasuredText(NamedTuple):
    """A text of several in which something is measured, with what it says and rather than what; empty where that is as
    for the text of the page."""

    text: str
    token: str = ""
    other: str = ""


def neutral_lines(state: Any) -> str:
    """Returns the other texts that a page opens with, one on each line, of as many words as the model reads."""
    if state.model == TRANSLATOR:
        return "The small red car is beautiful.\nThe cat sees a big dog."
    most = max(8, state.source.model().limit - 4)  # a character is at most a token, beside special ones
    return "\n".join(shorten(text, most, placeholder="") for text in NEUTRAL_TEXTS)


def opening_texts(state: Any) -> str:
    """Returns the texts that a page opens with: for a model that writes English, pairs of names, with both orders."""
    if state.model != SMOLLM2:
        return neutral_lines(state)
    lines = []
    for number, (name, other) in enumerate(NAMES):
        place, thing = PLACES[number % len(PLACES)]
        text = f"When {name} and {other} went to the {place}, {other} gave the {thing} to"
        lines.append(f" {BETWEEN} ".join((text, name, other)))
    return "\n".join(lines)


def texts_field(when: Callable[[Any], bool]) -> LongTextField:
    """Returns the field of the list of texts."""
    return LongTextField(
        N_("Texts, one on each line"),
        opening_texts,
        parameter="many-texts",
        when=when,
        about=N_(
            "Each text is measured after its last token. After the text may stand, with | between them, what it says, "
            "and rather than what."
        ),
    )


def text_lines(text: str, most: int) -> list[str]:
    """Returns the texts of a list, one on each line. Raises ValueError if there are none, too many or too long ones."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or len(lines) > most:
        raise value_error(
            "Between 1 and {most} texts are read, one on each line; these are {count}.",
            most=most,
            count=grouped(len(lines)),
        )
    if (longest := max(map(len, lines))) > MOST_CHARACTERS:
        raise value_error(
            "A text has at most {most} characters, and one of these has {count}.",
            most=grouped(MOST_CHARACTERS),
            count=grouped(longest),
        )
    return lines


def measured_texts(text: str) -> list[MeasuredText]:
    """Returns the texts of a list with what each of them says. Raises ValueError as `text_lines` does."""
    lines = text_lines(text, MOST_MEASURED)
    parts = [[part.strip() for part in line.split(BETWEEN)] for line in lines]
    return [MeasuredText(*one) if len(one) <= 3 else MeasuredText(line) for line, one in zip(lines, parts, strict=True)]


def names_tokens(text: str, count: int) -> bool:
    """Returns whether each text of a list names what it says, and of two also rather than what; not of a list that is
    refused."""
    try:
        return all(all(one[1 : 1 + count]) for one in measured_texts(text))
    except ValueError:
        return False


def text_refusal(number: int, problem: ValueError) -> ValueError:
    """Returns why a text is refused, with its number in the list."""
    return value_error("Text {number}: {problem}", number=number, problem=str(problem))


def text_link(state: Any, text: MeasuredText, link: Link) -> Link:
    """Returns a link of the page with one of the texts, and with what it says, in place of the text of a state."""
    kind = type(state)
    own = {
        kind.text.parameter: text.text,
        kind.token.parameter: text.token or state.values["token"],
        kind.other.parameter: text.other or state.values["other"],
    }
    changed = {*own, kind.position.parameter, kind.many.parameter}
    kept = [(name, value) for name, value in link if name not in changed]
    return (*kept, *((name, value) for name, value in own.items() if value))


def logit_name(run: NamedPass, metric: Logit | LogitDifference) -> str:
    """Returns a logit, or the difference of two, as part of a sentence."""
    token = _("“{word}”", word=run.token_text(metric.token))
    if isinstance(metric, Logit):
        return _("the logit of {token}", token=token)
    is_mean = metric.other == "mean"
    other = _("the average token") if is_mean else _("“{word}”", word=run.token_text(int(metric.other)))
    return _("the logit of {token} above that of {other}", token=token, other=other)


def difference_name(run: NamedPass, metric: Logit | LogitDifference, texts: Sequence[MeasuredText]) -> str:
    """Returns what is measured in several texts as part of a sentence, where they may have tokens of their own."""
    if any(text.token or text.other for text in texts):
        return _("the logit of what a text says above that of the other")
    return logit_name(run, metric)


def against_and_for(run: NamedPass, token: int, texts: Sequence[MeasuredText]) -> tuple[str, str]:
    """Returns labels for the ends of a scale of shares: against the token, or against what a text says where one of
    them has a token of its own, and for it."""
    if any(text.token for text in texts):
        return _("against"), _("for it")
    return for_and_against(run.token_text(token))
