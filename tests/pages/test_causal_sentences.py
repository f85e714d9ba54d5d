"""Each sentence of the app that names a cause is in a list, with the measurement that supports it, and its test."""

import ast

from docs.tools.translations import ROOT, script_messages, syntax_tree
from tests.pages.test_measured_sentences import CHECKS
from tests.support.causal_sentences import SentenceList, causal

LIST = SentenceList(__file__)
FOLDERS = ("attnviz/page/", "attnviz/pages/", "attnviz/ui/", "attnviz/lessons/", "attnviz/notebook/", "pages/")
ELSEWHERE = ("attnviz/ui/classroom", "attnviz/ui/lesson_editor", "attnviz/ui/server")  # which say nothing of a model


def messages() -> dict[str, str]:
    """The messages of the app with their files, without those of refusals."""
    found = {}
    for file in sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(syntax_tree(file)):
            match node:
                case ast.Call(ast.Name("_" | "N_"), [ast.Constant(str(message)), *_]):
                    found[message] = file.relative_to(ROOT).as_posix()
                case ast.Call(ast.Name("plural"), [ast.Constant(str(one)), ast.Constant(str(many)), *_]):
                    found |= dict.fromkeys((one, many), file.relative_to(ROOT).as_posix())
    for message, place in script_messages():
        if place.startswith(FOLDERS):
            found |= dict.fromkeys(message if isinstance(message, tuple) else (message,), place)
    return {message: place for message, place in found.items() if not place.startswith(ELSEWHERE)}


def test_each_sentence_that_names_a_cause_is_in_the_list() -> None:
    said = "Say in causal_sentences.toml which measurement supports it, and which test shows that."
    assert LIST.missing(messages()) == [], said


def test_the_list_has_only_sentences_of_the_app() -> None:
    assert LIST.unknown(messages()) == []


def test_each_claim_has_a_measurement_and_a_test_that_is_there() -> None:
    LIST.check_claims()


def test_the_sentences_about_100_texts_are_in_the_list() -> None:
    compared = "tests/pages/test_measured_sentences.py::test_no_sentence_is_contradicted_by_what_is_measured"
    texts = {text for claim in LIST.claims if claim["test"] == compared for text in claim["sentences"]}
    assert texts == {*CHECKS}


def test_words_of_causes_are_found() -> None:
    for text in (
        "So it looks at “{other}” and makes “{other}” less likely.",
        "So it looks at “{token}”, and does not help to say it.",
        "{name}, which undoes it, from {before} to {after}",
        "It works through others: without it, their shares change by {change}, most of all {parts}.",
    ):
        assert causal(text)
    assert not causal("Its largest share is from “{key}”: {share}, with a weight of {weight}.")
