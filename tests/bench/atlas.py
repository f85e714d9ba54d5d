"""An atlas against plain forward passes of the same texts, in the same batches, that return their weights; and what one
of many texts takes, in a process of its own.

`python -m tests.bench.atlas 1000` measures one of so many texts.
"""

import copy
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import cycle, islice
from random import Random

import torch

from attnviz import atlas as make_atlas
from attnviz.analysis.atlas_part import read_part, written_norms
from attnviz.effects import NEUTRAL_TEXTS
from attnviz.models.model import LoadedModel
from attnviz.models.smollm2 import smollm2
from attnviz.models.texts import Texts
from tests.bench.measures import in_turn, is_short, note, row, sizes, table
from tests.bench.models import STATUS, _of_status

RUNS = 3
SENTENCES = 4  # of each text, which then has about 64 tokens
TOKENS = 64  # of each of many texts
MOST_MEGABYTES = 2_000  # of the process


def atlas() -> None:
    """Both tables."""
    table(
        "An atlas of SmolLM2, against forwards that return their weights",
        ("texts", "tokens", "forwards ms", "atlas ms", "ratio"),
    )
    model = smollm2()
    eager = copy.deepcopy(model.model)
    eager.set_attn_implementation("eager")

    def forwards(texts: Texts) -> None:
        with torch.no_grad():
            for _numbers, batch in texts.same_shape():
                eager(**batch, output_attentions=True)

    sentences = cycle(NEUTRAL_TEXTS)
    for count in sizes((8, 64)):
        texts = Texts(model, [" ".join(islice(sentences, SENTENCES)) for _ in range(count)])
        norms = written_norms(model, texts)
        tokens = sum(batch["input_ids"].numel() for batch in texts)
        row(count, tokens, *in_turn(partial(forwards, texts), partial(read_part, model, texts, norms=norms), RUNS))
    of_many_texts()


def of_many_texts() -> None:
    """What an atlas takes, and that its memory does not grow with its texts. It is the most that the whole process had,
    with Python, torch and the model."""
    table("An atlas of SmolLM2 alone", ("texts", "tokens", "minutes", "texts a second", "peak MB"))
    for count in sizes((64, 1_000), short=(2,)):
        if is_short():
            seconds, most = measured(count)
        else:
            program = [sys.executable, "-m", "tests.bench.atlas", str(count)]
            seconds, most = json.loads(subprocess.run(program, stdout=subprocess.PIPE, check=True).stdout)
        row(count, count * TOKENS, seconds / 60, count / seconds, most / 1e6)
    note(f"At most {MOST_MEGABYTES:,} MB are wanted.")


def measured(count: int) -> tuple[float, float]:
    """Returns the seconds that an atlas of so many texts takes, with the loaded model, and the most bytes of this
    process."""
    model = smollm2()
    texts = drawn_texts(model, count)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        make_atlas(model, texts, folder)
        return time.perf_counter() - start, _of_status("VmHWM", STATUS)


def drawn_texts(model: LoadedModel, count: int) -> list[str]:
    """Returns texts of 64 tokens, of words drawn from all that are one token, so that as many tokens occur as can."""
    tokens = model.tokenizer.convert_ids_to_tokens(range(len(model.tokenizer)))
    words = [token.replace("Ġ", " ") for token in tokens if token[:1] == "Ġ" and token[1:].isalpha()]
    random = Random(0)
    texts = ["".join(random.choices(words, k=TOKENS)) for _ in range(count)]
    assert model.tokenizer(texts[0], return_tensors="pt")["input_ids"].shape[1] == TOKENS
    return texts


if __name__ == "__main__":
    print(json.dumps(measured(int(sys.argv[1]))))
