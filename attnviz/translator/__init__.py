"""A small transformer that translates English into French, trained here: `load().translate("the cat sleeps .")`."""

from attnviz.translator.grammar import Sentence, check, following, parse, sentences
from attnviz.translator.model import VARIANTS
from attnviz.translator.translation import Step, Translation, Translator
from attnviz.translator.weights import Log, Measured, load, log, measure, steps

__all__ = [
    "EXAMPLES",
    "VARIANTS",
    "Log",
    "Measured",
    "Sentence",
    "Step",
    "Translation",
    "Translator",
    "check",
    "following",
    "load",
    "log",
    "measure",
    "parse",
    "sentences",
    "steps",
]

EXAMPLES = (
    "the small red car is beautiful .",
    "the old king does not see the young birds .",
    "the small black cat does not look at the birds .",
    "I like my new school .",
    "the girl gives a flower to the children .",
    "does the horse of the queen sleep near the castle ?",
    "some good apples are always red .",
    "who does not like my old hat ?",
)
