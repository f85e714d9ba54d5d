"""Pairs of texts with two answers each, as patching reads them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from attnviz.attribution.metrics import LogitDifference
from attnviz.base.formatting import quoted
from attnviz.base.language import value_error
from attnviz.models.texts import PerText, Texts, read_lines

FIELDS = ("clean", "corrupted", "answer", "other")


class PromptPairs(NamedTuple):
    """Texts, each beside a corrupted one, and of each pair the logit of its answer above that of another one: what
    `patch` and `patch_paths` read after the model."""

    clean: Texts
    corrupted: Texts
    metric: PerText[LogitDifference]

    @classmethod
    def read(cls, model: Any, rows: Iterable[Any] | str | Path) -> "PromptPairs":
        """Returns the pairs of rows (clean, corrupted, answer, other answer), in a list or on the lines of a .jsonl
        file, where they may also be objects with these fields. `model` is a loaded one; an answer stands for its first
        token. Raises ValueError for a row without four texts, or whose answers begin with the same token.

        Example:
            >>> from attnviz.effects import patch
            >>> from attnviz.models import load
            >>> model, text = load("HuggingFaceTB/SmolLM2-135M-Instruct"), "Ann and Tom slept. {} told"
            >>> pairs = PromptPairs.read(model, [(text.format("Tom"), text.format("Ann"), "Ann", "Tom")])
            >>> patch(model.model, *pairs, heads=[(23, 3)]).map(lambda one: one.recovered[23, 3]).values.shape
            torch.Size([1])
        """
        lines = read_lines(Path(rows)) if isinstance(rows, str | Path) else [*rows]
        texts = [_texts(row, number) for number, row in enumerate(lines, 1)]
        metrics = []
        for *_texts_of_row, answer, other in texts:
            ids = [model.text_inputs.word_ids(word)[0] for word in (answer, other)]
            if ids[0] == ids[1]:
                raise value_error(
                    "The answers {answer} and {other} begin with the same token, so that their logits are the same.",
                    answer=quoted(answer),
                    other=quoted(other),
                )
            metrics.append(LogitDifference(*ids))
        clean, corrupted = ([row[side] for row in texts] for side in (0, 1))
        return cls(Texts(model, clean), Texts(model, corrupted), PerText(tuple(metrics)))


def _texts(row: Any, number: int) -> tuple[str, str, str, str]:
    values = [row.get(name) for name in FIELDS] if isinstance(row, dict) else row
    if not isinstance(values, list | tuple) or len(values) != 4 or not all(isinstance(one, str) for one in values):
        raise value_error(
            "Row {number} is not a clean text, a corrupted one, an answer and another answer.", number=number
        )
    clean, corrupted, answer, other = values
    return clean, corrupted, answer, other
