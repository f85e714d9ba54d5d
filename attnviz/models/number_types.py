"""The types of numbers in which models are stored and compute."""

import re
from functools import cache

import torch
from torch.nn import functional

HALF_TYPES = {"BF16": torch.bfloat16, "F16": torch.float16}  # by their names in safetensors


def computing_type(stored: str) -> torch.dtype:
    """Returns the type in which a model is computed whose weights are stored in a type of safetensors: bfloat16 and
    float16 where torch computes in them on this computer, and else float32.

    Example:
        >>> computing_type("F32"), computing_type("F8_E4M3")
        (torch.float32, torch.float32)
    """
    half = HALF_TYPES.get(stored)
    return half if half is not None and can_compute(half) else torch.float32


@cache
def can_compute(dtype: torch.dtype) -> bool:
    """Returns whether torch has what models are made of for a type of number on this computer."""
    states = torch.ones(1, 4, 4, dtype=dtype)
    try:
        functional.layer_norm(functional.gelu(functional.linear(states, states[0])), (4,)).softmax(-1)
        functional.scaled_dot_product_attention(states[None], states[None], states[None], attn_mask=states)
        functional.conv2d(states[None], states[None], stride=4)
        functional.silu(states).cumsum(-1) @ states
    except RuntimeError:
        return False
    return True


def quantized_bits(gguf_type: str) -> int:
    """Returns the bits of a weight in a type of GGUF, without what its block shares; 0 for a type of real numbers.

    Example:
        >>> quantized_bits("Q4_1"), quantized_bits("IQ2_XXS"), quantized_bits("BF16")
        (4, 2, 0)
    """
    match = re.match(r"(?:I?Q|TQ|(?:MX|NV)FP)(\d)", gguf_type)
    return int(match[1]) if match else 0


def type_name(dtype: torch.dtype) -> str:
    """Returns the name of a type, such as “bfloat16”.

    Example:
        >>> type_name(torch.bfloat16)
        'bfloat16'
    """
    return str(dtype).removeprefix("torch.")
