"""The command attnviz: which module runs, and what that imports."""

import re
import sys
from types import ModuleType

import pytest

from attnviz import command
from tests.test_imports import imported


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """What is run with which arguments, where there is a subcommand “draw”."""
    found: list[tuple[str, list[str]]] = []
    for name in ("opening", "drawing"):
        module = ModuleType(name)
        module.main = lambda arguments, name=name: found.append((name, list(arguments)))  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(command, "APP", "opening")
    monkeypatch.setitem(command.SUBCOMMANDS, "draw", "drawing")
    return found


@pytest.mark.parametrize(
    ("arguments", "call"),
    [
        ([], ("opening", [])),
        (["--port", "8600"], ("opening", ["--port", "8600"])),
        (["draw", "a", "--help"], ("drawing", ["a", "--help"])),
        (["--theme.base", "draw"], ("opening", ["--theme.base", "draw"])),
    ],
)
def test_the_first_word_names_a_subcommand(
    arguments: list[str], call: tuple[str, list[str]], calls: list[tuple[str, list[str]]]
) -> None:
    command.main(arguments)
    assert calls == [call]


def test_it_imports_no_streamlit_and_no_torch() -> None:
    modules = ["attnviz.command", *command.SUBCOMMANDS.values()]
    assert not imported(f"import {', '.join(modules)}") & {"streamlit", "torch", "transformers"}


@pytest.mark.parametrize(("word", "hint"), [("modles", "Did you mean models?"), ("foo", "There are atlas, capture, ")])
def test_a_word_that_is_no_command_opens_no_app(word: str, hint: str) -> None:
    with pytest.raises(SystemExit, match=re.escape(f"no command “{word}”. {hint}")):
        command.main([word, "install"])
