"""A small transformer that translates English into French: `load().translate("the cat sleeps .")`."""

from attnviz.translator.encoder_decoder import VARIANTS
from attnviz.translator.grammar import Sentence, generate_sentences, parse_sentence
from attnviz.translator.translation import Translation, TranslationStep, Translator
from attnviz.translator.typed_words import tokenize
from attnviz.translator.weights import Evaluation, TrainingLog, checkpoints, evaluate, load, training_log

__all__ = [
    "EXAMPLES",
    "VARIANTS",
    "Evaluation",
    "Sentence",
    "TrainingLog",
    "Translation",
    "TranslationStep",
    "Translator",
    "checkpoints",
    "evaluate",
    "generate_sentences",
    "load",
    "parse_sentence",
    "tokenize",
    "training_log",
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
