"""Checks of uploaded arrays and lists of tokens."""

import re
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.base.formatting import grouped, quoted
from attnviz.base.language import value_error
from attnviz.base.text import LONGEST_TOKEN
from attnviz.inputs import LARGEST

ROLES = {alias: role for role in ("query", "key", "value") for alias in (role, role[0])}
ROLES |= {"queries": "query", "keys": "key", "values": "value"}
# A name made of these words, such as attn_weights or encoder.attentions.0, is that of finished weights.
WEIGHTS = re.compile(
    r"(?=.*(?:att|weight|prob|pattern|score|logit|alpha))"
    r"(?:att(?:entions?|ns?)?|weights?|prob(?:s|abilit(?:y|ies))?|patterns?|maps?|matri(?:x|ces)|scores?|logits?|alphas?"
    r"|softmax|self|cross|encoder|decoder|vision|hook|layers?|blocks?|heads?|[\W\d_])+",
    re.IGNORECASE,
)
MOST_TOKENS = 1_024  # more rows cannot be read in a picture
# Types of at most 2 bytes a number, in which arrays stay in memory; in others, they are converted to float32.
NARROW_TENSORS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.float16)
NARROW_ARRAYS = {"b1": "u1", "u1": "u1", "i1": "i1", "i2": "i2", "f2": "f2"}


def role_of(name: str) -> str:
    """Returns what an array of this name is: "query", "key", "value" or "weights", else its name in lower case.

    Example:
        >>> role_of("K"), role_of("attn_weights"), role_of("Embeddings")
        ('key', 'weights', 'embeddings')
    """
    return "weights" if WEIGHTS.fullmatch(name[:LONGEST_TOKEN]) else ROLES.get(name.lower(), name.lower())


def numpy_array(tensor: Tensor) -> np.ndarray:
    """Returns a tensor as an array; one of a type in which arrays do not stay, or which NumPy has not, as float32."""
    tensor = tensor.detach().cpu()
    return (tensor if tensor.dtype in NARROW_TENSORS or tensor.is_complex() else tensor.float()).numpy()


def storage_type(dtype: np.dtype) -> np.dtype:
    """Returns the type in which an array stays in memory.

    Example:
        >>> storage_type(np.dtype(">f2")), storage_type(np.dtype("?")), storage_type(np.dtype("f8"))
        (dtype('float16'), dtype('uint8'), dtype('float32'))
    """
    return np.dtype(NARROW_ARRAYS.get(dtype.str[1:], "f4"))


def check_array(name: str, array: np.ndarray) -> np.ndarray:
    """Returns a copy of an array of 2 to 4 axes, in the type of `storage_type`.

    Raises ValueError if it has other axes or another type, or a number that is not finite or beyond ±1e12.

    Example:
        >>> check_array("query", np.eye(2)).dtype
        dtype('float32')
    """
    check_array_header(name, array.dtype, array.shape)
    with np.errstate(over="ignore"):
        converted = array.astype(storage_type(array.dtype))
    if not -LARGEST <= float(converted.min()) <= float(converted.max()) <= LARGEST:
        wrong = np.unravel_index(np.argmax(~(np.abs(converted.astype("f4")) <= LARGEST)), array.shape)
        raise value_error(
            "{element_name} is {array}. Replace NaN and infinity, and keep numbers between ±{LARGEST:.0e}.",
            element_name=element_name(name, wrong),
            array=quoted(array[wrong]),
            LARGEST=LARGEST,
        )
    return converted


def check_array_header(name: str, dtype: np.dtype, shape: tuple[int, ...]) -> None:
    """Raises ValueError for a type or shape that is not supported, before any number is read."""
    if dtype.hasobject:
        raise value_error(
            "{name} is an object array, which could run code when opened, so it is not read. Save "
            "plain numbers, for example x.astype('float32').",
            name=quoted(name),
        )
    if dtype.kind not in "fiub":
        raise value_error(
            "{name} has the type {dtype}. Save real numbers: x.astype('float32').",
            name=quoted(name),
            dtype=quoted(dtype),
        )
    if not 2 <= len(shape) <= 4 and role_of(name) == "weights":
        raise value_error(
            "{name} has the shape {shape}. Give it the axes (queries, keys), (heads, queries, keys) or (layers, "
            "heads, queries, keys): use one example, and reshape the height × width of an image into one axis.",
            name=quoted(name),
            shape=quoted(shape),
        )
    if not 2 <= len(shape) <= 4:
        raise value_error(
            "{name} has the shape {shape}. Give it 2 axes (tokens, width), 3 (heads, tokens, "
            "width) or 4 (layers, heads, tokens, width).",
            name=quoted(name),
            shape=quoted(shape),
        )
    if 0 in shape:
        raise value_error(
            "{name} is empty: its shape is {shape}. Give at least one row of numbers.",
            name=quoted(name),
            shape=quoted(shape),
        )


def check_tokens_header(name: str, dtype: np.dtype, shape: tuple[int, ...]) -> None:
    if dtype.kind != "U" or len(shape) != 1:
        raise value_error(
            "{name} is not a list of texts. Save it as numpy.array({array}, dtype='U').",
            name=quoted(name),
            array=name,
        )


def check_tokens(name: str, content: object) -> tuple[str, ...]:
    if isinstance(content, np.ndarray):
        check_tokens_header(name, content.dtype, content.shape)
    if isinstance(content, np.ndarray | list) and len(content) > MOST_TOKENS:
        raise value_error(
            "{name} names {count} tokens; at most {MOST_TOKENS} can be shown.",
            name=quoted(name),
            count=grouped(len(content)),
            MOST_TOKENS=grouped(MOST_TOKENS),
        )
    if isinstance(content, np.ndarray):
        # Decoded here, because numpy fails in ways of its own on what is not a character.
        raw = content.astype(content.dtype.newbyteorder("<"))
        content = [text.tobytes().decode("utf-32-le", "replace").rstrip("\0") for text in raw]
    if not isinstance(content, list) or not all(isinstance(text, str) for text in content):
        raise value_error("{name} must be a list of texts, one for each vector.", name=quoted(name))
    # Half a surrogate pair is not a character either, and cannot be sent to a browser.
    return tuple(text[:LONGEST_TOKEN].encode(errors="replace").decode() for text in content)


def element_name(name: str, index: tuple[Any, ...]) -> str:
    return quoted(name) + (f"[{', '.join(str(i) for i in index)}]" if index else "")
