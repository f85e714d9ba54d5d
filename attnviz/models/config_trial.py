"""A trial of configs that could take all memory or hours to build, in a separate process with limits of time and
memory.

Some architectures compute position tables number by number while they are built, which cannot be interrupted within a
process. The process takes about 5 seconds to start, so configs without large tables do without it.
"""

import json
import re
import resource
import subprocess
from functools import lru_cache
from typing import Any

from attnviz.base.bounded_json import nested_objects
from attnviz.base.limited_process import InputRefusal, run_program, serve_input
from attnviz.models.config import build, too_large

TABLE = 1 << 25  # numbers that are computed without a trial
SECONDS, CPU_SECONDS, BYTES = 120, 40, 4 << 30  # of a trial
# Types of models that compute none, however long their texts are, as a test builds each.
WITHOUT_TABLES = {
    *("llama", "mistral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text", "phi3"),
    *("falcon", "bloom", "gpt2", "stablelm", "starcoder2", "nemotron"),
}
POSITIONS = re.compile(r"position|length|context|ctx")
WIDTH = re.compile(r"dim|d_model|embd|width|size")


def check_trial(name: str, config: dict[str, Any], tensors: int) -> None:
    """Raises ValueError if the config has a large position table and cannot be built within the limits."""
    if config["model_type"] not in WITHOUT_TABLES and largest_table(config) > TABLE:
        _run_trial(name, json.dumps(config, sort_keys=True), tensors)


def largest_table(config: dict[str, Any]) -> int:
    """Returns an upper bound of the size of a position table, by the names of the config's numbers.

    Example:
        >>> largest_table({"max_position_embeddings": 512, "hidden_size": 768})
        393216
    """
    largest = 0
    for part in nested_objects(config):
        sides = {key: _largest(value) for key, value in part.items() if "vocab" not in key}
        image, patch = (sides.get(key, 0) for key in ("image_size", "patch_size"))
        positions = [number for key, number in sides.items() if POSITIONS.search(key)]
        positions.append((image // max(1, patch)) ** 2 * max(1, sides.get("num_frames", 1)))
        widths = [
            number for key, number in sides.items() if WIDTH.search(key) and key not in ("image_size", "patch_size")
        ]
        largest = max(largest, max(positions) * max(widths, default=1))
    return largest


def _largest(value: Any) -> int:
    numbers = value if isinstance(value, list) else [value]
    return max((number for number in numbers if isinstance(number, int)), default=0)


@lru_cache(maxsize=64)
def _run_trial(name: str, config: str, tensors: int) -> None:
    try:
        run_program(__name__, name, tensors, data=config.encode(), seconds=SECONDS, memory=BYTES)
    except subprocess.SubprocessError as error:
        raise too_large(name) from error


def _build(config: bytes, name: str, tensors: str) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    try:
        build(name, json.loads(config), int(tensors))
    except ValueError as problem:
        raise InputRefusal(str(problem)) from problem


if __name__ == "__main__":
    serve_input(_build)
