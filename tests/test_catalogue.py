"""The catalogues of the interface's words: whole, compiled, and in step with the code."""

import ast
import json
import re
from string import Formatter

import pytest

from attnviz.language import ENGLISH, LANGUAGES
from docs.tools.catalogue import (
    FOLDERS,
    ROOT,
    SCRIPT_MESSAGE,
    SCRIPT_PLURAL,
    all_strings,
    compiled,
    extracted,
    of_scripts,
    path,
    read,
    syntax_tree,
)  # fmt: skip

# What no person reads: selectors, names of classes, fonts, errors for developers.
IN_SCRIPTS = re.compile(
    r"[\[{#*=<]|script, style|:is|:not|class-|path-|network-|matrices-|attnviz-|Helvetica|no canvas|did not load|font-"
)
OTHERS = [code for code in LANGUAGES if code != ENGLISH]


def forms(string: object) -> list[str]:
    return [string] if isinstance(string, str) else list(string)  # type: ignore[call-overload]


def placeholders(text: str) -> set[str]:
    """What is put into a text; formulas in LaTeX have braces of their own."""
    return {f"{name}:{spec}" for _text, name, spec, _conversion in Formatter().parse(text) if name is not None}


@pytest.mark.parametrize("code", OTHERS)
def test_every_message_has_a_translation_and_no_other_does(code: str) -> None:
    marked = {message.id for message in extracted() if message.id}
    catalog = read(code)
    translated = {message.id for message in catalog if message.id and all_strings(message.string)}
    assert marked - translated == set(), "python -m docs.tools.catalogue, and translate what it names"
    assert translated - marked == set()
    assert not catalog.obsolete
    assert not [message.id for message in catalog if message.id and message.fuzzy]


@pytest.mark.parametrize("code", OTHERS)
def test_translations_hold_the_same_values_as_the_messages(code: str) -> None:
    wrong = []
    for message in read(code):
        for source, translation in zip(forms(message.id), forms(message.string), strict=True):
            is_template = re.search(r"\{[a-z_0-9]*(:[^}]*)?\}", source, re.IGNORECASE) and "\\math" not in source
            if message.id and is_template and placeholders(source) != placeholders(translation):
                wrong.append((source, translation))
    assert not wrong


@pytest.mark.parametrize("code", OTHERS)
def test_translations_begin_and_end_with_the_same_space(code: str) -> None:
    def ends(text: str) -> tuple[bool, bool]:
        return text[:1].isspace(), text[-1:].isspace()

    pairs = [
        pair
        for one in read(code)
        if one.id and one.id != ","
        for pair in zip(forms(one.id), forms(one.string), strict=True)
    ]
    assert not [source for source, translation in pairs if ends(source) != ends(translation)]


@pytest.mark.parametrize("code", OTHERS)
def test_the_compiled_catalogue_is_that_of_the_text(code: str) -> None:
    assert path(code).with_suffix(".mo").read_bytes() == compiled(read(code)), "python -m docs.tools.catalogue"


@pytest.mark.parametrize("code", OTHERS)
def test_scripts_read_the_same_translations(code: str) -> None:
    written = path(code).with_suffix(".json").read_text(encoding="utf-8")
    assert written == of_scripts(read(code)), "python -m docs.tools.catalogue"
    words = json.loads(written)
    assert all(text["one"] and text["other"] for text in words.values() if isinstance(text, dict))
    assert words["Reset zoom"] == "Zoom zurücksetzen"


def test_scripts_show_no_text_that_is_no_message() -> None:
    """Sentences and titles in scripts are in _(…) or plural(…)."""
    texts = re.compile(r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`')
    prose = re.compile(r"[A-Za-z]{2,}[,:.]? [a-z]{2,}.* [a-z]{2,}|[A-Z][a-z]+ [a-z]{2,}")
    wrong = []
    for file in sorted((ROOT / "attnviz").rglob("*.js")):
        if file.parent.name == "notebook":  # which is English
            continue
        code = re.sub(r"/\*.*?\*/|(?<![:\w])//[^\n]*", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
        code = SCRIPT_PLURAL.sub("", SCRIPT_MESSAGE.sub("", code))
        shown = [re.sub(r"\$\{[^}]*\}", "", text) for text in texts.findall(code)]
        wrong += [f"{file.name}: {text}" for text in shown if prose.search(text) and not IN_SCRIPTS.search(text)]
    assert not wrong


def test_no_message_is_put_together_before_it_is_looked_up() -> None:
    """An f-string or a formatted text is in no catalogue; and a local variable called _ hides the function."""
    wrong = []
    for file in (file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(syntax_tree(file)):
            match node:
                case ast.Call(ast.Name("_" | "N_" | "plural"), [ast.JoinedStr() | ast.BinOp(), *_]):
                    wrong.append(f"{file.relative_to(ROOT)}:{node.lineno}")
                case ast.Call(ast.Attribute(ast.Call(ast.Name("N_")), "format")):
                    wrong.append(f"{file.relative_to(ROOT)}:{node.lineno}")
    assert not wrong


def test_no_parameter_in_a_script_hides_the_function_of_words() -> None:
    parameter = re.compile(
        r"\((?:[\w\s,]*,\s*)?_\s*(?:,[^()]*)?\)\s*=>|(?<![\w.])_\s*=>|[\[{,]\s*_\s*[,\]}][^;()]*\]? ="
    )
    scripts = {file: file.read_text(encoding="utf-8") for file in (ROOT / "attnviz").rglob("*.js")}
    wrong = [
        file.name
        for file, script in scripts.items()
        if "import { _" in script
        and parameter.search("\n".join(line for line in script.splitlines() if not line.startswith("import")))
    ]
    assert not wrong
