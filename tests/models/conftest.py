"""What tests of models share; their folders are in tests/support/tiny_models.py."""

import io
from contextlib import redirect_stdout

import pytest

from attnviz.base.limited_process import InputRefusal
from attnviz.models import gguf_program
from attnviz.models.loading import inspect_folder
from tests.support.tiny_models import MODELS


@pytest.fixture(autouse=True)
def fresh(isolated):
    pass


@pytest.fixture(scope="session")
def loaded(saved):
    return {name: inspect_folder(saved / name).load() for name in MODELS}


@pytest.fixture
def in_this_process(monkeypatch):
    """Heads and tokenizers of GGUF files are read in this process, which has imported what the program that reads them
    imports anew for each file; other tests of GGUF files run the program."""

    def run(_module, path, part, **_limits):
        written = io.TextIOWrapper(io.BytesIO(), write_through=True)
        try:
            with redirect_stdout(written):
                gguf_program._serve(b"", str(path), part)
        except InputRefusal as refusal:
            raise ValueError(str(refusal)) from refusal
        return written.buffer.getvalue()

    monkeypatch.setattr(gguf_program, "run_program", run)
