"""Errors of transformers and torch as ValueErrors with readable messages."""

from collections.abc import Iterator
from contextlib import contextmanager

import safetensors
from huggingface_hub.errors import StrictDataclassError

from attnviz.base.formatting import quoted
from attnviz.base.language import value_error

# Exceptions of the libraries about an input that a model cannot take, besides ValueError.
INPUT_ERRORS = (ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, RuntimeError, TypeError)
FOLDER_ERRORS = (*INPUT_ERRORS, OSError, ValueError, SyntaxError, StrictDataclassError, safetensors.SafetensorError)


def reason(error: BaseException) -> str:
    """Returns the first line of a library's error, to be quoted in a sentence."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return quoted(first, 200)


@contextmanager
def as_value_error(sentence: str) -> Iterator[None]:
    """Raises ValueError with this sentence and the reason, for errors of transformers within the context."""
    try:
        yield
    except FOLDER_ERRORS as error:
        raise value_error(
            "{sentence}. The reason given is: {reason}", sentence=sentence, reason=reason(error)
        ) from error
