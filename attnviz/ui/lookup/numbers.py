"""What the query gets, number by number: from similarity to result, notch by notch, and its gradient."""

from collections.abc import Sequence
from html import escape

import streamlit as st

from attnviz.figures.plane import COLORS
from attnviz.formatting import fixed, number, significant, visible
from attnviz.lessons.lookup import EXACT, NOTCHES, Answer, Dictionary, Point, gradient, look_up, mechanism
from attnviz.scores import Score
from attnviz.ui import widgets

NOTHING = "nothing"
SOFT = "T = 1"  # the notch whose gradient stands for the soft look-up where the control is on a hard one
STEPS = tuple(reversed(NOTCHES))  # from uniform to the dictionary


def sums(dictionary: Dictionary, query: Point, notch: str, score: Score, answer: Answer) -> None:
    """What comes back, and the sum that it is."""
    st.html(f"<p class='attnviz-summary attnviz-result' role='status'>{said(dictionary, query, notch, answer)}</p>")
    rows = "".join(
        f"<tr><th>{_word(dictionary, i)}</th><td>{signed(answer.similarity[i])}</td>"
        f"<td>{_bar(answer.weights[i], COLORS[i])}</td><td>× {significant(entry.value)}</td>"
        f"<td>{signed(answer.parts[i])}</td></tr>"
        for i, entry in enumerate(dictionary.entries)
    )
    total = NOTHING if answer.result is None else signed(answer.result)
    names = {"key": "", "similarity": widgets.title(type(score)).lower(), "weight": notch, "value": "", "product": ""}
    head = "".join(f"<th>{name}<small>{how}</small></th>" for name, how in names.items())
    st.html(
        f"<table class='attnviz-table attnviz-lookup'><thead><tr>{head}</tr></thead><tbody>{rows}</tbody><tfoot><tr>"
        f"<th colspan='2'>sum</th><td>{number(sum(answer.weights))}</td><td></td><td><b>{total}</b></td></tr></tfoot>"
        "</table>"
    )


def limit(dictionary: Dictionary, query: Point, notch: str, score: Score) -> None:
    """The weights of every notch: softmax becomes hard, and hard is the dictionary where the query is the best key."""
    answers = {step: look_up(dictionary, query, mechanism(step, score)) for step in STEPS}
    head = "".join(f"<th>{_word(dictionary, i)}</th>" for i in range(len(dictionary.entries)))
    rows = "".join(
        f"<tr{' class=attnviz-here' if step == notch else ''}><th>{step}</th>"
        f"<td><b>{NOTHING if answer.result is None else signed(answer.result)}</b></td>"
        f"{''.join(f'<td>{_weight(weight)}</td>' for weight in answer.weights)}</tr>"
        for step, answer in answers.items()
    )
    st.html(
        f"<table class='attnviz-table attnviz-lookup'><thead><tr><th></th><th>result</th>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )
    st.html(f"<p>{limit_said(dictionary, answers['hard'], answers[EXACT])}</p>")


def slopes(dictionary: Dictionary, query: Point, notch: str, score: Score) -> None:
    """∂result/∂query of the dictionary, the hard and the soft look-up."""
    soft = notch if notch.startswith("T") else SOFT
    rows = ""
    for step in (EXACT, "hard", soft):
        slope = gradient(dictionary, query, mechanism(step, score))
        cells = "<td colspan='2'>none: the result jumps here</td>"
        if slope is not None:
            cells = "".join(f"<td>{signed(along, 3)}</td>" for along in slope)
        rows += f"<tr{' class=attnviz-here' if step == notch else ''}><th>{step}</th>{cells}</tr>"
    st.html(
        "<table class='attnviz-table attnviz-lookup'><thead><tr><th></th><th>∂result/∂x</th><th>∂result/∂y</th></tr>"
        f"</thead><tbody>{rows}</tbody></table>"
    )


def said(dictionary: Dictionary, query: Point, notch: str, answer: Answer) -> str:
    """What comes back, in a sentence of HTML."""
    if answer.result is None:
        return f"No key equals the query ({', '.join(map(significant, query))}): <b>{NOTHING}</b> comes back."
    result = f"<b>{signed(answer.result)}</b>"
    looked = [i for i, weight in enumerate(answer.weights) if weight]
    if notch == EXACT:
        return f"The query is the key of {_word(dictionary, looked[-1])}: its value {result} comes back."
    if notch == "uniform":
        return f"Every key weighs the same, whatever the query: the mean, {result}, comes back."
    if len(looked) == 1:
        return f"All the weight is on the most similar key, {_word(dictionary, looked[0])}: {result} comes back."
    if notch == "hard":
        return f"{_listed(dictionary, looked)} are equally similar and share the weight: {result} comes back."
    return f"A bit of every value comes back: {result}."


def limit_said(dictionary: Dictionary, hard: Answer, exact: Answer) -> str:
    """How the hard look-up and the dictionary compare, in a sentence of HTML."""
    best = [i for i, weight in enumerate(hard.weights) if weight]
    to = f"As T goes to 0, all the weight goes to {_listed(dictionary, best)}"
    if exact.result is None:
        return f"{to}. A dictionary wants an equal key, and there is none: attention still answers."
    equal = exact.weights.index(1.0)
    if best == [equal]:
        return f"{to}, whose key the query is: the limit is the dictionary."
    return (
        f"{to}, yet the query is the key of {_word(dictionary, equal)}: under this similarity a key need not be the "
        "most similar one to itself."
    )


def signed(number: float, digits: int = 2) -> str:
    """A number with its sign as it is printed; a whole one has no decimals, and zero no minus."""
    return fixed(number, 0 if number == round(number) else digits)


def _weight(weight: float) -> str:
    return "0" if weight == 0 else "1" if weight == 1 else number(weight) if weight >= 1e-4 else "&lt; 0.0001"


def _bar(weight: float, color: str) -> str:
    return (
        f"<span class='attnviz-weight'>{number(weight)}</span>"
        f"<span class='attnviz-bar'><i style='width:{100 * weight:.1f}%;background:{color}'></i></span>"
    )


def _word(dictionary: Dictionary, i: int) -> str:
    return (
        f"<i class='attnviz-dot' style='background:{COLORS[i]}'></i><bdi>{escape(visible(dictionary.words[i]))}</bdi>"
    )


def _listed(dictionary: Dictionary, chosen: Sequence[int]) -> str:
    words = [_word(dictionary, i) for i in chosen]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
