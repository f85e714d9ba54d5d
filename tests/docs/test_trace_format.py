"""The format of a trace: the programs of its page write one that is right, and so does the recipe for vLLM."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from attnviz import Trace
from attnviz.command.trace import main
from attnviz.trace import check
from attnviz.trace.schema import MOST_BYTES, OBJECTS
from docs.tools import hooks
from tests.docs.test_examples import ROOT, programs

PAGE = ROOT / "docs" / "trace-format.md"
RECIPE = ROOT / "docs" / "vllm.md"
WIDEST = 82  # characters of a program on a page of 1,280 pixels


def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Runs the two programs that write a trace, and returns their names."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for program in programs(PAGE)[:2]:
        exec(program, names)
    return names


def test_a_few_lines_write_a_trace_that_is_all_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = folders(tmp_path, monkeypatch)
    assert sum(bool(line) for line in programs(PAGE)[0].splitlines()) == 11
    assert "attnviz" not in "".join(programs(PAGE)[:2]).replace('"attnviz trace"', "")
    vectors, weights = Trace.load("my-trace")[0], Trace.load("my-weights")[0]
    arrays = [torch.from_numpy(names[name]) for name in ("query", "key", "value")]
    torch.testing.assert_close(
        vectors.mechanism(vectors.inputs).output, scaled_dot_product_attention(*arrays, is_causal=True)
    )
    assert np.array_equal(weights.maps(), names["weights"], equal_nan=True)
    assert check("my-trace") == check("my-weights") == []


def test_the_page_shows_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = folders(tmp_path, monkeypatch)
    page = PAGE.read_text("utf-8")
    main(["check", "my-trace"])
    assert f"```text\n{capsys.readouterr().out}```" in page
    swapped = {name: np.ascontiguousarray(names[name].swapaxes(0, 1)) for name in ("query", "key", "value")}
    names["save_file"](swapped, Path("my-trace") / "layer-0000.safetensors")
    with pytest.raises(SystemExit):
        main(["check", "my-trace"])
    assert capsys.readouterr().out.splitlines()[0] in " ".join(page.replace("\n> ", " ").split())


@pytest.mark.parametrize("page", [PAGE, RECIPE], ids=["trace-format", "vllm"])
def test_no_line_of_a_program_is_cut_off(page: Path) -> None:
    blocks = re.findall(r"^```py.*?\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert [line for block in blocks for line in block.splitlines() if len(line) > WIDEST] == []


def test_the_page_has_every_field_and_limit() -> None:
    page = PAGE.read_text("utf-8")
    assert hooks.FIELDS in page
    built = hooks.on_page_markdown(page)
    assert [field.name for fields in OBJECTS.values() for field in fields if f"| `{field.name}` |" not in built] == []
    for part in ("`ScaledDot`", "`ALiBi`", "`Sink`", "`BF16`"):
        assert part in built
    assert f"more than {MOST_BYTES >> 20} MB" in page


class Attention(nn.Module):
    """A module with the arguments and attributes of vLLM's, which get tokens with all heads in a row."""

    def __init__(self, window: int | None = None, cap: float = 0, sinks: torch.Tensor | None = None) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_size, self.head_size_v = 4, 2, 8, 6
        self.sliding_window = window
        self.impl = SimpleNamespace(scale=0.25, logits_soft_cap=cap, sinks=sinks)

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Returns (tokens, heads × width), by loops over single tokens."""
        query, key = query.view(-1, 4, 8), key.view(-1, 2, 8)
        value = value.view(-1, 2, 6)
        rows = []
        for q, vectors in enumerate(query):
            first = 0 if self.sliding_window is None else max(0, q - self.sliding_window + 1)
            for head, vector in enumerate(vectors):
                scores = key[first : q + 1, head // 2] @ vector * self.impl.scale
                if self.impl.logits_soft_cap:
                    scores = self.impl.logits_soft_cap * torch.tanh(scores / self.impl.logits_soft_cap)
                sinks = self.impl.sinks
                extended = scores if sinks is None else torch.cat([scores, sinks[head, None]])
                rows.append(extended.softmax(0)[: len(scores)] @ value[first : q + 1, head // 2])
        return torch.cat(rows).view(len(query), -1)


@pytest.fixture
def write_attention() -> Any:
    names: dict[str, Any] = {}
    [program] = programs(RECIPE)
    exec(program, names)
    return names["write_attention"]


def test_the_recipe_for_vllm_writes_what_its_module_computes(write_attention: Any, tmp_path: Path) -> None:
    model = nn.ModuleList([Attention(), Attention(window=3), Attention(cap=2.0), Attention(sinks=torch.randn(4))])
    ids, padding = [7, 8, 9, 10, 11], 3
    attached = write_attention(model, Attention, tmp_path / "trace", ids, list("abcde"))
    outputs = []
    for module in model:
        arrays = [torch.randn(len(ids) + padding, width) for width in (32, 16, 12)]
        outputs.append(module(*arrays)[: len(ids)])
    for hook in attached:
        hook.remove()
    assert check(tmp_path / "trace") == []
    trace = Trace.load(tmp_path / "trace")
    assert [str(layer.id) for layer in trace] == [f"layer {number}" for number in range(4)]
    assert trace[0].inputs.key_ids == tuple(ids)
    for layer, output in zip(trace, outputs, strict=True):
        written = layer.mechanism(layer.inputs).output.transpose(0, 1).reshape(len(ids), -1)
        torch.testing.assert_close(written, output)


def test_the_recipe_for_vllm_refuses_a_prompt_in_parts(write_attention: Any, tmp_path: Path) -> None:
    model = nn.ModuleList([Attention()])
    write_attention(model, Attention, tmp_path / "trace", [1, 2, 3], list("abc"))
    with pytest.raises(ValueError, match="Read in parts: raise max_num_batched_tokens"):
        model[0](torch.randn(2, 32), torch.randn(2, 16), torch.randn(2, 12))
    assert not [*(tmp_path / "trace").iterdir()]
