"""The answer of Why in sentences."""

from math import exp, log

from attnviz.attribution.attribution import WriterShare
from attnviz.attribution.circuit import LEAST_SHARE, size
from attnviz.attribution.metrics import Logit, LogitDifference, Score
from attnviz.attribution.trail import TrailStep
from attnviz.base.formatting import enumeration, fixed, grouped, number, percent, plain_word, significant
from attnviz.base.language import _, plural
from attnviz.figures.shares import signed
from attnviz.layer import head_name
from attnviz.pages.why.answer import HeadReading, WhyAnswer

MOST_FACTOR = 1e6
MOST_GATES = 4  # modules that are named


def question_sentence(shown: WhyAnswer, steps: int | None = None) -> str:
    """Returns the question at the end of the trail, or after some of its steps."""
    run, metric = shown.run, shown.metric
    steps = len(shown.trail) if steps is None else steps
    if steps:
        return step_question(shown, shown.trail[steps - 1])
    if isinstance(metric, Score):
        keys = run.keys(metric.layer)
        names = {
            "head": head_name(run.layers[metric.layer], metric.head),
            "key": plain_word(keys[metric.key]),
            "query": plain_word(run.queries(metric.layer)[metric.query]),
        }
        if metric.over is None:
            return _("Why does {head} look from “{query}” at “{key}”?", **names)
        over = _("the average key") if metric.over == "mean" else _("“{word}”", word=plain_word(keys[metric.over]))
        return _("Why does {head} look from “{query}” at “{key}” rather than at {other}?", other=over, **names)
    if not isinstance(metric, Logit | LogitDifference):
        word = plain_word(run.predicting[metric.position])
        return _("What is this direction of the residual stream at “{word}” made of?", word=word)
    token, other = _two_names(shown)
    if run.names_labels:
        return (
            _("Why does it say “{token}” rather than {other}?", token=token, other=other)
            if other
            else _("Why does it say “{token}”?", token=token)
        )
    names = {"token": token, "other": other, "word": plain_word(run.predicting[metric.position])}
    if not other:
        return _("Why is the logit of “{token}” at “{word}” what it is?", **names)
    if not run.predicts_next:
        return _("Why does it say “{token}” rather than {other} at “{word}”?", **names)
    return _("Why does it say “{token}” rather than {other} after “{word}”?", **names)


def step_question(shown: WhyAnswer, step: TrailStep) -> str:
    """Returns the question of a step of the trail."""
    run = shown.run
    names = {
        "head": head_name(run.layers[step.layer], step.head),
        "source": plain_word(run.keys(step.layer)[step.source]),
        "word": plain_word(run.queries(step.layer)[step.position]),
    }
    if step.question == "value":
        return _("What did {head} find at “{source}” for “{word}”?", **names)
    if step.question == "key":
        return _("Why does {head} look from “{word}” at “{source}”, by what wrote “{source}”?", **names)
    return _("Why does {head} look from “{word}” at “{source}”, by what wrote “{word}”?", **names)


def answer_sentence(shown: WhyAnswer) -> str:
    """Returns the number in a sentence."""
    total = shown.attribution.total
    if shown.trail and shown.trail[-1].question == "value":
        whole = shown.sums[0].total
        if any(step.question != "value" for step in shown.trail) or total * whole <= 0:
            return _("It carries {total} from there.", total=signed(total))
        return _(
            "It carries {total} from there, {share} of the {whole} that was asked for.",
            total=signed(total),
            share=percent(total / whole, 2),
            whole=signed(whole),
        )
    if isinstance(shown.attribution.metric, Score):
        return _score_sentence(shown)
    if not isinstance(shown.metric, Logit | LogitDifference):
        return _("The product of the residual stream and the direction is {total}.", total=fixed(total))
    token, other = _two_names(shown)
    if isinstance(shown.attribution.metric, LogitDifference):
        names = {"token": token, "other": other, "total": fixed(abs(total))}
        factor = _factor(exp(min(abs(total), 50)))
        if shown.attribution.metric.other == "mean" or factor == "1" or abs(total) > log(MOST_FACTOR):
            if total < 0:
                return _("The logit of “{token}” is {total} below that of {other}.", **names)
            return _("The logit of “{token}” is {total} above that of {other}.", **names)
        if total < 0:
            return _(
                "The logit of “{token}” is {total} below that of {other}, which is {factor} times as likely.",
                factor=factor,
                **names,
            )
        return _(
            "The logit of “{token}” is {total} above that of {other}: it is {factor} times as likely.",
            factor=factor,
            **names,
        )
    return _("The logit of “{token}” is {total}.", token=token, total=fixed(total))


def largest_sentences(shown: WhyAnswer) -> str:
    """Returns the largest term for the number and the largest against it in sentences, first that of the number's own
    sign; empty if all are 0."""
    sentences = []
    for term in shown.largest_of_each_sign:
        names = {"writer": shown.writer(term), "word": shown.word(term), "share": signed(term.share)}
        if term.share > 0:
            sentences.append(_("The largest share for it is that of {writer} at “{word}”: {share}.", **names))
        else:
            sentences.append(_("The largest share against it is that of {writer} at “{word}”: {share}.", **names))
    return " ".join(sentences)


def sum_sentence(shown: WhyAnswer) -> str:
    """Returns how the sum adds up."""
    attribution = shown.attribution
    writers = attribution.heads.shape[0] * attribution.heads.shape[1] + len(attribution.mlps) + 1
    sentence = _(
        "The shares of {writers} at {positions} add up to {total}; {error} is missing.",
        writers=plural("{count} writer", "{count} writers", writers, count=writers),
        positions=plural("{count} position", "{count} positions", len(shown.columns), count=len(shown.columns)),
        total=fixed(attribution.total, 3),
        error=number(abs(attribution.error)),
    )
    if attribution.gates:
        gates = enumeration(attribution.gates[:MOST_GATES])
        sentence += " " + _("The nonlinearities of {modules} are held as factors.", modules=gates)
    return sentence


def term_text(shown: WhyAnswer) -> str:
    """Returns what is known of the shown term: what a head has read, or that another one is not opened further."""
    term = shown.term
    if term is None:
        return _("There is no such term in this sum. Choose one of the table.")
    if (reading := shown.reading) is not None:
        return " ".join(reading_sentences(shown, reading))
    more = _("An embedding is an end: it is the word itself.") if term.layer is None else ""
    if term.layer is not None and term.head is None:
        more = _("What an MLP has written is taken as given; these are its parts with the largest shares.")
    return f"{_term_sentence(shown, term)} {more}".strip()


def _term_sentence(shown: WhyAnswer, term: WriterShare) -> str:
    """Returns a term in a sentence."""
    sentence = _(
        "{writer} at “{word}” adds {share}.", writer=shown.writer(term), word=shown.word(term), share=signed(term.share)
    )
    return sentence[:1].upper() + sentence[1:]


def reading_sentences(shown: WhyAnswer, reading: HeadReading) -> list[str]:
    """Returns what the shown head has read, and what it does to the two tokens of the question."""
    key, source = reading.strongest_key, reading.strongest_source
    sentences = [
        _term_sentence(shown, reading.term),
        _(
            "It gives {weight} of its attention to “{key}”, and takes {share} from there.",
            weight=number(reading.weights[key]),
            key=reading.keys[key],
            share=signed(reading.sources[key]),
        ),
    ]
    if source != key:
        sentences.append(
            _(
                "Its largest share is from “{key}”: {share}, with a weight of {weight}.",
                weight=number(reading.weights[source]),
                key=reading.keys[source],
                share=signed(reading.sources[source]),
            )
        )
    return sentences + _two_tokens(shown, reading)


def _two_tokens(shown: WhyAnswer, reading: HeadReading) -> list[str]:
    """Returns what a head adds directly to the logits of the token that is said and of the other one, each against the
    mean, and whether that raises or lowers the token that it looks at most, by LEAST_SHARE of the number or more."""
    metric = shown.attribution.metric
    if not isinstance(metric, LogitDifference) or not isinstance(metric.other, int):
        return []
    first, second = (
        float(
            shown.run.attribution(LogitDifference(token, "mean", metric.position)).heads[
                reading.layer, reading.head, reading.term.position
            ]
        )
        for token in (metric.token, metric.other)
    )
    tokens = {"token": shown.run.token_text(metric.token), "other": shown.run.token_text(metric.other)}
    sentences = [
        _(
            "Against the average token, it adds {first} to the logit of “{token}” and {second} to that of “{other}”.",
            first=signed(first),
            second=signed(second),
            **tokens,
        )
    ]
    looked_at = reading.keys[reading.strongest_key]
    change = {tokens["token"]: first, tokens["other"]: second}.get(looked_at, 0.0)
    if abs(change) < LEAST_SHARE * size(shown.attribution):
        return sentences
    if change > 0:
        return [*sentences, _("It looks most at “{word}”, and directly raises the logit of “{word}”.", word=looked_at)]
    return [*sentences, _("It looks most at “{word}”, and directly lowers the logit of “{word}”.", word=looked_at)]


def _score_sentence(shown: WhyAnswer) -> str:
    metric = shown.attribution.metric
    assert isinstance(metric, Score)
    keys, total = shown.run.keys(metric.layer), shown.attribution.total
    if metric.over is None:
        return _("The score of “{key}” is {total}.", key=plain_word(keys[metric.key]), total=fixed(total))
    names = {"key": plain_word(keys[metric.key]), "total": fixed(abs(total))}
    if metric.over == "mean":
        if total < 0:
            return _("The score of “{key}” is {total} below the mean of those of all keys.", **names)
        return _("The score of “{key}” is {total} above the mean of those of all keys.", **names)
    names |= {"other": plain_word(keys[metric.over]), "factor": _factor(exp(min(total, 50)))}
    if total < 0:
        return _("The score of “{key}” is {total} below that of “{other}”: it gets {factor} times its weight.", **names)
    return _("The score of “{key}” is {total} above that of “{other}”: it gets {factor} times its weight.", **names)


def _two_names(shown: WhyAnswer) -> tuple[str, str]:
    """Returns the token that is said, and the other one as a part of a sentence; empty if there is none."""
    metric, run = shown.metric, shown.run
    assert isinstance(metric, Logit | LogitDifference)
    token = run.token_text(metric.token)
    if isinstance(metric, Logit):
        return token, ""
    return token, _("the average token") if metric.other == "mean" else _("“{word}”", word=run.token_text(metric.other))


def _factor(factor: float) -> str:
    return significant(factor, 2) if factor < 100 else grouped(round(factor))
