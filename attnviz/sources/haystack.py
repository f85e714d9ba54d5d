"""A text with a fact hidden in it, and a question for it at the end: a needle in a haystack (Kamradt, 2023)."""

from dataclasses import dataclass, field

FACT = "The secret number of the old lighthouse is seven."
QUESTION = "What is the secret number of the old lighthouse?"
LEAST_WORDS = 60
# The sentences around the fact; none of them says anything about it.
FILLER = (
    "The market opens early, and the first carts come down the hill with bread and apples.",
    "A boy carries a basket of eggs to his aunt, who lives beside the mill.",
    "In the afternoon the rain stops, and people sit in front of their houses again.",
    "The baker counts his loaves twice and sells the last one to a tired traveler.",
    "Two dogs sleep under the table while the family eats soup and talks about the harvest.",
    "The road to the town is long, but the trees along it give shade all day.",
    "A teacher reads a story to her class, and some of the children draw what they hear.",
    "When the train arrives, an old man helps a woman with her heavy bags.",
    "The garden behind the school has beans, onions and a row of yellow flowers.",
    "My neighbor repairs clocks, and his window is full of small wheels and springs.",
    "On Sundays the band plays in the park, and nobody minds the wrong notes.",
    "The river is low in summer, so that you can cross it on flat stones.",
    "She writes a letter to her brother and tells him about the new bridge.",
    "The cat waits at the door until somebody opens it, and then stays where it is.",
    "Farmers say that a cold spring makes for sweet plums, though few of them agree on why.",
    "At night the square is quiet, and only the fountain can be heard.",
    "The library lends books for a month, and most people bring them back late.",
    "A painter mixes green from blue and yellow and is not happy with it.",
    "Snow fell on the hills last week, but in the valley it was only rain.",
    "They built the wall from stones that they had found in the field.",
)


@dataclass(frozen=True)
class Haystack:
    """A text of about `words` words, with the fact at `depth` percent of it.

    Example:
        >>> text = Haystack(words=60, depth=0).text
        >>> text[:66]
        'The secret number of the old lighthouse is seven. The market opens'
        >>> text[-20:], len(text.split())
        (' the old lighthouse?', 64)
    """

    words: int = field(default=240, metadata={"label": "Words", "min": LEAST_WORDS})
    depth: int = field(default=50, metadata={"label": "Depth", "min": 0, "max": 100})  # 0 is the beginning
    fact: str = FACT
    question: str = QUESTION

    @property
    def text(self) -> str:
        """The sentences before the fact, the fact, those after it, and the question."""
        sentences: list[str] = []
        left = self.words - len(f"{self.fact} {self.question}".split())
        while left > 0:
            sentences.append(FILLER[len(sentences) % len(FILLER)])
            left -= len(sentences[-1].split())
        first = round(len(sentences) * self.depth / 100)
        return " ".join([*sentences[:first], self.fact, *sentences[first:], self.question])
