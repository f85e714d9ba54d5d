"""Texts that have nothing to do with the one that is measured: over them the mean of mean ablation is taken."""

from collections.abc import Callable
from typing import Any

NEUTRAL_TEXTS = (
    "The bakery on the corner opens at seven, and by eight the first loaves are gone.",
    "Most rivers carry more water in spring, when the snow on the mountains melts.",
    "“Could you tell me where the station is?” asked the woman with the green umbrella.",
    "In 1962 the town had three schools, two cinemas and no bridge across the river.",
    "To make the soup, cut the carrots small, add salt and let everything cook for an hour.",
    "My brother plays the violin, but he has not practiced since he moved to the city.",
    "A triangle has three sides, and the sum of its angles is half of a full turn.",
    "The committee will meet again on Thursday, because no decision could be made today.",
    "Why do cats sleep so much? Nobody knows for sure, and the cats do not say.",
    "Please close the window before you leave, and put the key under the mat.",
    "The report describes how prices rose last year and which goods were hardly bought.",
    "Dear Ms. Keller, thank you for your letter, which arrived while I was away.",
    "When the lights went out, the audience waited in silence for the second act.",
    "Iron rusts in damp air, whereas gold stays as bright as on the first day.",
    "She had never seen the sea, so they drove all night and arrived at dawn.",
    "Our team lost four games in a row, then won the next one by a single point.",
)


def neutral_texts(tokenizer: Callable[..., Any]) -> list[Any]:
    """Returns NEUTRAL_TEXTS as a tokenizer of transformers reads them, one batch each: `texts` of `ablations`."""
    return [tokenizer(text, return_tensors="pt") for text in NEUTRAL_TEXTS]
