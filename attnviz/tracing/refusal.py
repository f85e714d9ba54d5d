"""The error for a model in which no attention is found."""

import re
from collections.abc import Mapping, Sequence

from torch import nn

from attnviz.base.formatting import dimensions, enumeration, quoted
from attnviz.tracing.recording import Recording

# Parts of attention, by their usual names.
PARTS = re.compile(r"^(to_)?(qkv?|kv?|query|key|value|w?[qk]|[qk]_proj|query_proj|in_proj|c_attn|qkv_proj)$")
MOST_NAMED = 3  # modules that are named


def no_attention(model: nn.Module, recording: Recording) -> str:
    """Returns what was looked for in a model, and which of its modules look like attention, as sentences."""
    names = recording.names.modules
    alike = [module for module in names if _looks_like_attention(module, names[module])]
    alike = [module for module in alike if not any(part in alike for part in module.modules() if part is not module)]
    sentences = [
        f"{type(model).__name__} has no attention that can be shown. Attention is seen in transformers models, "
        "nn.MultiheadAttention, F.scaled_dot_product_attention and flex_attention; and in a softmax over keys, if the "
        'name of its module has "att" in it and the module has its number of heads as num_heads.'
    ]
    if alike:
        sentences.append(f"What looks like attention here is {described_first(alike, names)}.")
    if recording.softmaxes:
        some = [
            f"{described(module, names[module])}, {dimensions(shape)}"
            for module, shape in list(recording.softmaxes.items())[:MOST_NAMED]
        ]
        sentences.append(f"A softmax ran in {enumeration(some)}.")
    return " ".join([*sentences, *recording.missing.unrecognized()])


def described_first(modules: Sequence[nn.Module], paths: Mapping[nn.Module, str]) -> str:
    """Returns the first modules, described and enumerated, and how many more there are; nothing of none."""
    first, more = [described(module, paths[module]) for module in modules[:MOST_NAMED]], len(modules) - MOST_NAMED
    return f"{', '.join(first)} and {more} more" if more > 0 else enumeration(first) if first else ""


def described(module: nn.Module, path: str) -> str:
    """Returns the path and the class of a module."""
    return f"{quoted(path)} ({type(module).__name__})" if path else type(module).__name__


def _looks_like_attention(module: nn.Module, path: str) -> bool:
    named = "att" in f"{path.rpartition('.')[2]} {type(module).__name__}".lower()
    return named or any(PARTS.match(name) for name, _ in module.named_children())
