"""Capturing a long text into a trace, whole and in chunks, against the plain forward: processor time and memory, each
side in a process of its own.

`python -m tests.bench.traces forward 131072` measures one side of a tiny random Llama; `minilm` after it takes MiniLM
with its positions repeated.
"""

import json
import subprocess
import sys
import tempfile
import time
from typing import Any

import torch
import transformers as hf

from attnviz.models.minilm import minilm
from attnviz.tracing import capture
from tests.bench.measures import is_short, row, sizes, table
from tests.bench.models import RESET, STATUS, _of_status

LENGTHS = {"llama": (16_384, 131_072), "minilm": (16_384,)}
VOCABULARY, CHUNK = 512, 4_096


def traces() -> None:
    """The table: each side in turn, with what it takes above the loaded model."""
    table(
        "Capturing into a trace (processor time)",
        (
            "model",
            "tokens",
            "forward ms",
            "captured ms",
            "ratio",
            "in chunks ms",
            "forward MB",
            "captured MB",
            "in chunks MB",
        ),
    )
    for name, lengths in sizes([*LENGTHS.items()], [("llama", (1_024,))]):
        for tokens in lengths:
            (plain, less), (captured, more) = (_in_process(side, tokens, name) for side in ("forward", "captured"))
            chunked, least = _in_process("chunked", tokens, name) if name == "llama" else ("", "")
            row(name, tokens, plain, captured, captured / plain, chunked, less, more, least)


def _in_process(side: str, tokens: int, name: str) -> tuple[float, float]:
    if is_short():
        return measured(side, tokens, name)
    program = [sys.executable, "-m", "tests.bench.traces", side, str(tokens), name]
    milliseconds, size = json.loads(subprocess.run(program, stdout=subprocess.PIPE, check=True).stdout)
    return milliseconds, size


def llama(tokens: int) -> Any:
    """A random Llama with 4 layers of 2 heads that share one key and value head."""
    torch.manual_seed(0)
    config = hf.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=4,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=tokens,
        use_cache=False,
    )
    return hf.LlamaModel(config).eval()


def long_minilm(tokens: int) -> Any:
    """MiniLM with its position embeddings repeated."""
    kept = minilm().model
    states = kept.state_dict()
    name = next(name for name in states if name.endswith("position_embeddings.weight"))
    config = type(kept.config)(**kept.config.to_diff_dict() | {"max_position_embeddings": tokens})
    config._attn_implementation = "sdpa"
    longer = type(kept)(config)
    longer.load_state_dict({**states, name: states[name].repeat(tokens // len(states[name]), 1)})
    return longer.eval()


@torch.no_grad()
def measured(side: str, tokens: int, name: str) -> tuple[float, float]:
    """Milliseconds of the processor, and the most megabytes above the loaded model."""
    model = {"llama": llama, "minilm": long_minilm}[name](tokens)
    ids = torch.randint(5, VOCABULARY, (1, tokens))
    with tempfile.TemporaryDirectory() as folder:
        sides = {
            "forward": lambda ids, _: model(ids),
            "captured": lambda ids, part: _captured(model, ids, part),
            "chunked": lambda ids, part: _captured(model, ids, part, CHUNK),
        }
        sides[side](ids[:, :16], f"{folder}/short")  # what is done but once
        RESET.write_text("5")  # Linux forgets the largest size so far
        before, start = _of_status("VmRSS", STATUS), time.process_time()
        sides[side](ids, f"{folder}/long")
        return 1000 * (time.process_time() - start), (_of_status("VmHWM", STATUS) - before) / 1e6


def _captured(model: Any, ids: torch.Tensor, folder: str, chunk: int | None = None) -> None:
    trace = capture(model, ids, folder=folder, chunk=chunk)
    assert len(trace) == model.config.num_hidden_layers
    assert not trace.missing


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]), (*sys.argv[3:], "llama")[0])))
