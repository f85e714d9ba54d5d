"""Each sentence of a lesson that names a cause is in a list, with the measurement that supports it, and its test."""

from attnviz.lessons.lesson_files import FOLDER, read_lessons
from tests.support.causal_sentences import SentenceList, sentences

LIST = SentenceList(__file__)


def places() -> dict[str, str]:
    """The sentences of the English lessons, with the names of their files; the others are translations."""
    return {
        sentence: lesson.name
        for lesson in read_lessons(FOLDER)[0]
        if lesson.language == "en"
        for text in (lesson.title, lesson.about, *(text for step in lesson.steps for text in (step.ask, step.answer)))
        for sentence in sentences(text)
    }


def test_each_sentence_of_a_lesson_that_names_a_cause_is_in_the_list() -> None:
    said = "Say in causal_sentences.toml which measurement supports it, and which test shows that."
    assert LIST.missing(places()) == [], said


def test_the_list_has_only_sentences_of_the_lessons() -> None:
    assert LIST.unknown(places()) == []


def test_each_claim_of_a_lesson_has_a_measurement_and_a_test() -> None:
    LIST.check_claims()
