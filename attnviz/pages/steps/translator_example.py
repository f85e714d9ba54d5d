"""One head of the small translator, with its numbers for a sentence."""

from dataclasses import dataclass
from functools import lru_cache

from attnviz.base.language import _, value_error
from attnviz.mechanism import Mechanism
from attnviz.pages.steps.computation import Computation, HeadMatrices, StepsExample
from attnviz.scores import Additive
from attnviz.translator import EXAMPLES, VARIANTS, Translation, load
from attnviz.translator.encoder_decoder import HEADS, HIDDEN, LAYERS, USES, Use, score_class


@dataclass(frozen=True)
class TranslatorExample(StepsExample):
    """The queries, keys and values of one head, from the last step of translating a sentence.

    A row of the decoder has the name of the word that goes in and of the word that comes out.
    """

    english: str = EXAMPLES[0]
    similarity: str = next(iter(VARIANTS))  # of its encoder–decoder attention
    use: Use = "cross"
    layer: int = 0
    head: int = 0

    def __post_init__(self) -> None:
        if self.use not in USES:
            raise value_error(
                "The translator’s uses of attention are {uses}; {use} was requested.",
                uses=", ".join(USES),
                use=repr(self.use),
            )
        for name, value, count in (("layer", self.layer, LAYERS), ("head", self.head, HEADS)):
            if not 0 <= value < count:
                raise value_error(
                    "The translator has {count} {name}s, counted from 0; {name} {value} was requested.",
                    count=count,
                    name=name,
                    value=value,
                )
        if self.use == "cross" and score_class(self.similarity) is Additive:
            raise value_error(
                "An additive score has a small network with {HIDDEN} hidden numbers for each pair "
                "of a query and a key: too many to be written out. Choose another similarity, or a "
                "self-attention, which has dot products.",
                HIDDEN=HIDDEN,
            )

    @property
    def origin(self) -> str:
        use = USES[self.use][0].lower() + USES[self.use][1:]
        return _(
            "The queries, keys and values of head {head} in layer {layer} of the translator’s "
            "{use}, as they were when it translated the sentence. Each was made from a vector of "
            "64 numbers, which is not here.",
            head=self.head,
            layer=self.layer,
            use=use,
        )

    def build(self, computation: Computation) -> tuple[Mechanism, list[HeadMatrices]]:
        translation = _translation(self.similarity, self.english)
        layer = translation.layers(use=self.use)[self.layer]
        inputs, origin = layer.inputs.vectors, _("made by the translator, with learned weights")
        queries, keys = inputs.query_tokens, inputs.key_tokens
        query, key, value = (one[self.head].double() for one in (inputs.query, inputs.key, inputs.value))
        q = computation.add_input("Q0", "Q", _("queries"), query, queries, origin, "queries", head=0, of_queries=True)
        k = computation.add_input("K0", "K", _("keys"), key, keys, origin, "keys", head=0)
        v = computation.add_input("V0", "V", _("values"), value, keys, origin, "values", head=0)
        return layer.known_mechanism, [(q, k, v)]


@lru_cache(maxsize=8)  # it is the same for all heads of a sentence, and whatever numbers are edited
def _translation(similarity: str, english: str) -> Translation:
    return load(similarity).translate(english)
