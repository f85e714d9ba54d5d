"""The translations of the interface's words: what is translated is correct and compiled; what is not is counted."""

import ast
import gettext
import io
import json
import re
from string import Formatter

import pytest
from babel.messages import Catalog

from attnviz.base.language import ENGLISH, LANGUAGES
from docs.tools.translations import (
    FOLDERS,
    ROOT,
    SCRIPT_MESSAGE,
    SCRIPT_PLURAL,
    all_strings,
    compiled,
    marked_messages,
    of_scripts,
    path,
    read,
    syntax_tree,
    update,
)

# What no person reads: selectors, names of classes, fonts, errors for developers.
IN_SCRIPTS = re.compile(
    r"[\[{#*=<]|script, style|:is|:not|class-|path-|network-|matrices-|attnviz-|Helvetica|no canvas|did not load|font-"
)
FUNCTIONS = ("_", "plural", "value_error")  # with messages whose values are arguments
OTHERS = [code for code in LANGUAGES if code != ENGLISH]


def forms(string: object) -> list[str]:
    return [string] if isinstance(string, str) else list(string)  # type: ignore[call-overload]


def placeholders(text: str) -> set[str]:
    """What is put into a text; formulas in LaTeX have braces of their own."""
    return {f"{name}:{spec}" for _text, name, spec, _conversion in Formatter().parse(text) if name is not None}


def translated(code: str) -> list[tuple[str, str]]:
    """The messages that have a translation, and those translations, each plural form by itself."""
    return [
        pair
        for message in read(code)
        if message.id and all_strings(message.string)
        for pair in zip(forms(message.id), forms(message.string), strict=True)
    ]


def calls_with_values() -> list[tuple[str, set[str], set[str]]]:
    """The calls that put values into a message: the place, the names in the message, and those of the values."""
    calls = []
    for file in (file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))):
        for node in ast.walk(syntax_tree(file)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS):
                continue
            values = {keyword.arg for keyword in node.keywords}
            messages = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            if values and None not in values and messages:
                names = {name.partition(":")[0] for message in messages for name in placeholders(message)}
                calls.append((f"{file.relative_to(ROOT)}:{node.lineno}", names, values))
    return calls


def test_each_value_has_its_place_in_the_message() -> None:
    calls = calls_with_values()
    assert len(calls) > 500
    assert not [call for call in calls if call[1] != call[2]]


@pytest.mark.parametrize("code", OTHERS)
def test_no_translation_is_a_guess_or_is_kept_for_a_removed_message(code: str) -> None:
    catalog = read(code)
    assert len(translated(code)) > 1000
    assert not catalog.obsolete
    assert not [message.id for message in catalog if message.id and message.fuzzy]


def test_the_tool_counts_new_messages_and_names_changed_ones() -> None:
    catalog, code = Catalog(locale="de"), Catalog()
    catalog.add("Reset zoom", "Zoom zurücksetzen")
    catalog.add("An older sentence", "Ein älterer Satz")
    code.add("Reset zoom")
    code.add("A new sentence")
    code.add(("{count} new word", "{count} new words"))
    report = update(catalog, code)
    assert "de: 2 of 3 messages have no translation\n    'A new sentence'\n" in report
    assert report.endswith("de: removed, because the code no longer has them: 1\n    'An older sentence'")
    assert catalog["Reset zoom"].string == "Zoom zurücksetzen"  # type: ignore[union-attr]
    found = gettext.GNUTranslations(io.BytesIO(compiled(catalog)))
    assert found.gettext("A new sentence") == "A new sentence"
    assert found.gettext("An older sentence") == "An older sentence"
    assert found.ngettext("{count} new word", "{count} new words", 2) == "{count} new words"


def test_the_tool_sees_messages_whose_values_are_arguments() -> None:
    code = (
        '_("{a} of {b}", a=1, b=2), plural("{count} key", "{count} keys", n, count=n), N_("two"), value_error("three")'
    )
    assert set(marked_messages(ast.parse(code))) == {"{a} of {b}", ("{count} key", "{count} keys"), "two", "three"}


@pytest.mark.parametrize("code", OTHERS)
def test_translations_hold_the_same_values_as_the_messages(code: str) -> None:
    wrong = []
    for source, translation in translated(code):
        is_template = re.search(r"\{[a-z_0-9]*(:[^}]*)?\}", source, re.IGNORECASE) and "\\math" not in source
        if is_template and placeholders(source) != placeholders(translation):
            wrong.append((source, translation))
    assert not wrong


@pytest.mark.parametrize("code", OTHERS)
def test_messages_are_whole_and_their_values_have_names(code: str) -> None:
    """None begins or ends where another one is put beside it, and each value has a name that a translator can read."""
    messages = [text for message in read(code) if message.id for text in forms(message.id)]
    assert not [text for text in messages if re.search(r"^[\s,.;:](?!$)|\s$", text)]
    names = re.compile(r"(?<!\{)\{(?![a-zA-Z]\w*(?<!_\d)[:}])[^{}]*\}")  # in LaTeX they are in two braces
    assert not [text for text in messages if names.search(text)]


@pytest.mark.parametrize("code", OTHERS)
def test_translations_begin_and_end_as_the_messages_do(code: str) -> None:
    assert not [pair for pair in translated(code) if re.search(r"^\s|\s$", pair[1]) and pair[0] != ","]


@pytest.mark.parametrize("code", OTHERS)
def test_the_compiled_translations_are_those_of_the_text(code: str) -> None:
    assert path(code).with_suffix(".mo").read_bytes() == compiled(read(code)), "python -m docs.tools.translations"


@pytest.mark.parametrize("code", OTHERS)
def test_scripts_read_the_same_translations(code: str) -> None:
    written = path(code).with_suffix(".json").read_text(encoding="utf-8")
    assert written == of_scripts(read(code)), "python -m docs.tools.translations"
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
    """An f-string or a formatted text is in no translation. Values are arguments."""
    wrong = []
    for file in (file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(syntax_tree(file)):
            match node:
                case ast.Call(ast.Name("_" | "N_" | "plural" | "value_error"), [ast.JoinedStr() | ast.BinOp(), *_]):
                    wrong.append(f"{file.relative_to(ROOT)}:{node.lineno}")
                case ast.Call(ast.Attribute(ast.Call(ast.Name("_" | "N_" | "plural" | "value_error")), "format"), []):
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


def test_errors_of_masks_are_messages() -> None:
    """No sentence of a MaskError, and no part of one, is a text that no translation can have."""
    wrong = []
    for name in ("parser", "mask_mod"):
        for node in ast.walk(syntax_tree(ROOT / f"attnviz/masks/{name}.py")):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
                if called in ("refuse", "unexpected", "unknown", "MaskError"):
                    texts = [ast.unparse(arg) for arg in node.args if isinstance(arg, ast.Constant | ast.JoinedStr)]
                    wrong += [f"{name}:{node.lineno}: {text}" for text in texts if re.search("[a-z]{2} [a-z]", text)]
    assert not wrong
