"""Tokenizers that take all memory, crash or never end, which must not happen to the process of the app."""

import gc
import json
import os
import resource
import signal

import pytest

from attnviz.models import tokenizer_process
from attnviz.models.loading import inspect_folder
from attnviz.models.minilm import minilm
from attnviz.models.tokenizer_process import LAUNCHER, TokenizerProcess
from tests.support.tiny_models import TEXT
from tests.support.waiting import until


@pytest.fixture
def loaded_with(copied):
    """A function that loads a tiny model whose tokenizer.json has other parts."""

    def load(**parts):
        folder = copied()
        file = folder / "tokenizer.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | parts))
        # BertTokenizer would make its parts itself.
        (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
        return inspect_folder(folder).load()

    return load


def longer(times, length):
    """A normalizer that multiplies each letter a, again and again."""
    replace = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * length}
    return {"type": "Sequence", "normalizers": [replace] * times}


def children():
    """The processes of tokenizers that are running."""
    pid = LAUNCHER._program.pid
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return set(map(int, file.read().split()))


def refused(model, text):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ValueError, match=r"^The tokenizer of bert ") as error:
        model.encode(text)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes
    assert model.encode("the fox").source.tokens[1:-1] == ("the", "fox")
    return str(error.value)


def test_a_normalizer_that_takes_all_memory(loaded_with, monkeypatch):
    monkeypatch.setattr(tokenizer_process, "SECONDS", 100)  # on a busy machine, memory takes its time
    words = "takes more than 2 GB of memory for this text, or fails. Shorten the text, or take another model."
    assert refused(loaded_with(normalizer=longer(2, 8_000)), "aaaa") == f"The tokenizer of bert {words}"


def test_a_normalizer_that_takes_too_long(loaded_with, monkeypatch):
    given = loaded_with(normalizer=longer(5, 40))
    monkeypatch.setattr(tokenizer_process, "SECONDS", 1)
    words = "takes more than 1 seconds for this text. Shorten the text, or take another model."
    assert refused(given, "aaaa") == f"The tokenizer of bert {words}"


def test_a_regex_that_tries_for_ever(loaded_with):
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    parts = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, split]}
    words = refused(loaded_with(pre_tokenizer=parts), "a" * 40 + "!")
    assert words.startswith("The tokenizer of bert fails. The reason given is: “")
    assert words.endswith("”. Shorten the text, or take another model.")


def test_more_tokens_than_are_received(loaded_with, monkeypatch):
    given = loaded_with(normalizer=longer(1, 1_000))
    monkeypatch.setattr(tokenizer_process, "REPLY_BYTES", 10_000)
    words = refused(given, "a " * 1_000)
    assert (
        words
        == "The tokenizer of bert returns more than 9.77 KB for this text. Shorten the text, or take another model."
    )


@pytest.mark.parametrize("reply", ["{}", "[]", '{"result": null}', '{"result": {"input_ids": ["1"]}}', "[" * 5_000])
def test_a_reply_of_another_form(loaded, monkeypatch, reply):
    tokenizer = loaded["bert"].tokenizer
    with monkeypatch.context() as other:
        other.setattr(tokenizer, "_read_line", lambda _most: reply.encode() + b"\n")
        with pytest.raises(ValueError, match="The tokenizer of bert returns something unexpected"):
            tokenizer("the fox")
    assert tokenizer("the fox")["input_ids"]


def test_a_tokenizer_that_cannot_be_loaded_in_time_counts_as_none(copied, monkeypatch):
    monkeypatch.setattr(tokenizer_process, "LOADING_SECONDS", 0.001)
    assert inspect_folder(copied()).load().tokenizer is None


def test_the_process_ends_with_the_model(copied):
    folder, before = inspect_folder(copied()), children()
    given = folder.load()
    assert isinstance(given.tokenizer, TokenizerProcess)
    given.layers(TEXT)
    [process] = children() - before
    del given
    gc.collect()
    until(lambda: process not in children())


def test_a_process_that_was_ended_is_started_anew(copied):
    given, before = inspect_folder(copied()).load(), children()
    os.kill(max(before), signal.SIGKILL)
    until(lambda: children() != before)
    assert given.encode("the fox").source.tokens[1:-1] == ("the", "fox")


def test_the_program_that_was_ended_is_started_anew(copied):
    folder = inspect_folder(copied())
    folder.load()
    LAUNCHER._program.kill()
    LAUNCHER._program.wait()
    assert folder.load().encode("the fox").source.tokens[1:-1] == ("the", "fox")


def test_the_tokenizer_of_the_wheel_runs_in_this_process():
    assert minilm().tokenizer.is_fast
    assert not isinstance(minilm().tokenizer, TokenizerProcess)
