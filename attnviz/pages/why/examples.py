"""Three questions to begin with, each answered in three steps."""

from dataclasses import dataclass

from attnviz.base.language import N_
from attnviz.base.link import Link

CAPITAL = (("text", "The capital of France is"), ("rather-than", "London"))
AGAIN = (("text", "Mr and Mrs Baker lived in a house. Mr and Mrs"), ("rather-than", "Smith"))


@dataclass(frozen=True)
class WhyExample:
    """A question with its steps: what to see in each, a message, and the link that opens it."""

    title: str
    steps: tuple[tuple[str, Link], ...]

    def step_of(self, link: Link) -> int | None:
        """Returns the number of the step that a link opens, None if none does."""
        return next((i for i, (_text, own) in enumerate(self.steps) if sorted(own) == sorted(link)), None)


WHY_EXAMPLES = (
    WhyExample(
        N_("A name"),
        (
            (
                N_(
                    "The model says “Mary”, and not “John”. Each cell is what one part of the model adds to that: blue "
                    "is for “Mary”, brown against it. Which head adds most, and at which word does it look?"
                ),
                (),
            ),
            (
                N_(
                    "This head looks at “Mary” more than at any other word, and directly lowers the logit of “Mary”. "
                    "Looking at a word is not saying it."
                ),
                (("term", "24.4.13"),),
            ),
            (
                N_(
                    "This is what the head with the largest share found at “John”. Most of it was written there by the "
                    "first MLP, as soon as the word was read. The head directly lowers the logit of “John”, and hardly "
                    "changes that of “Mary”."
                ),
                (("trail", "value.23.3.13.9"),),
            ),
        ),
    ),
    WhyExample(
        N_("A capital"),
        (
            (
                N_("The model says “Paris”. One head reads most of that from one word. Which head, and which word?"),
                CAPITAL,
            ),
            (
                N_(
                    "This is what the head found at “France”: MLPs have written it there, most of it the first one. "
                    "What an MLP has written is taken as given, so this is where the sum ends."
                ),
                (*CAPITAL, ("trail", "value.23.4.4.3")),
            ),
            (
                N_("The drawing has all terms of at least 5 %. Which of them come from “France”, and which from “is”?"),
                (*CAPITAL, ("tree", "true")),
            ),
        ),
    ),
    WhyExample(
        N_("A word again"),
        (
            (
                N_("The name was in the text before, and the model says it again. Where does the largest head look?"),
                AGAIN,
            ),
            (
                N_(
                    "Why does it look at “Baker”? By the query: of all heads, one in layer 18 has the largest share. "
                    "It has looked at “Baker”, too."
                ),
                (*AGAIN, ("trail", "query.23.1.11.3")),
            ),
            (
                N_(
                    "And why did that head look at “Baker”? By the key: a head of layer 16, which looks at “Mrs”, the "
                    "word before, has the largest share. Without what it wrote at “Baker”, the head of layer 18 gives "
                    "“Baker” 0.41 of its attention rather than 0.74: an induction circuit."
                ),
                (*AGAIN, ("trail", "query.23.1.11.3-key.18.6.11.3")),
            ),
        ),
    ),
)
