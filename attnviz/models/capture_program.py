"""A program that reads texts with the models that come with attnviz; `CaptureProcess` starts it, and asks it.

Requests are (language, model, text, second text, picture); a reply is the inputs and the layers, or None where the
model refuses the text: whoever has asked reads it then, and has the reason.
"""

import io
import os
import pickle
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import torch
import transformers

from attnviz.base.language import set_language
from attnviz.models import model_cache

NICENESS = 5  # pages that are drawn at the same time come first


class TensorPickler(pickle.Pickler):
    """A pickler that writes the numbers of a tensor as NumPy does, ten times as fast as torch."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.layout == torch.strided and value.dtype != torch.bfloat16:
            return torch.from_numpy, (value.detach().numpy(),)
        return NotImplemented


def answer_requests(connection: Connection) -> None:
    """Answers requests. Raises EOFError or OSError when the connection is closed."""
    while True:
        language, name, *example = pickle.loads(connection.recv_bytes())  # noqa: S301 - of the process that started this
        set_language(language)
        model = model_cache.model(name)
        try:
            trace = model.layers(*example)
            reply = model.encode(*example), trace
        except (ValueError, NotImplementedError):
            reply = None
        written = io.BytesIO()
        TensorPickler(written, pickle.HIGHEST_PROTOCOL).dump(reply)
        connection.send_bytes(written.getbuffer())
        model.forget_examples()


if __name__ == "__main__":
    os.nice(NICENESS)
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    with suppress(EOFError, OSError):
        answer_requests(Connection(int(sys.argv[1])))
