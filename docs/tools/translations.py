"""The translations of the interface's words: extracted from the code into .po files, compiled into .mo files for Python
and into .json files for scripts.

`python -m docs.tools.translations` adds new messages to the .po files, without a translation, and removes those that
the code no longer has; it counts and names both. A message without a translation is shown in English.
"""

import ast
import gettext
import io
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import get_args

from babel.messages import Catalog, pofile
from babel.messages.mofile import write_mo

from attnviz import __version__
from attnviz.analysis.head_metrics import HEAD_METRICS
from attnviz.base.language import DOMAIN, ENGLISH, FOLDER, LANGUAGES
from attnviz.biases import BIASES
from attnviz.masks import GROUPS, MASKS
from attnviz.masks.conventions import NAMED_MASKS
from attnviz.masks.empty_rows import EMPTY_ROW_CONVENTIONS
from attnviz.normalizers import NORMALIZERS
from attnviz.page.html import PAGE_MESSAGE
from attnviz.page.parts import help_text, settings, title
from attnviz.scores import SCORES
from attnviz.sources import SOURCES

ROOT = Path(__file__).parents[2]
STACKS = ("encoder", "decoder", "layer", "vision")  # after which layers are named
FOLDERS = ("attnviz", "pages")
TRIES = 10
_TEXT = r'("(?:[^"\\\n]|\\.)*")'
SCRIPT_MESSAGE = re.compile(rf"(?<![\w.])_\(\s*{_TEXT}")
SCRIPT_PLURAL = re.compile(rf"(?<![\w.])plural\(\s*{_TEXT},\s*{_TEXT}")
COMPONENT_MESSAGE = re.compile(r'(?:title|aria-label)="([^"]+)"|<button[^>]*>([^<]*[A-Za-z][^<]*)<')


def extracted() -> Catalog:
    """Returns a template of all messages of the code, and of what follows from its classes: names, help, labels."""
    catalog = Catalog(project=DOMAIN, version=__version__, charset="utf-8")
    for file in sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")):
        for message in marked_messages(syntax_tree(file)):
            catalog.add(message, locations=[(file.relative_to(ROOT).as_posix(), 0)])
    for message, place in class_messages():
        catalog.add(message, locations=[(place, 0)])
    for file in sorted((ROOT / "attnviz").rglob("*.html")):
        for message in page_messages(file.read_text(encoding="utf-8")):
            catalog.add(message, locations=[(file.relative_to(ROOT).as_posix(), 0)])
    for message, place in script_messages():
        catalog.add(message, locations=[(place, 0)])
    return catalog


def syntax_tree(file: Path) -> ast.Module:
    """Returns the syntax tree of a file. Raises SyntaxError."""
    text = file.read_text(encoding="utf-8")
    for _attempt in range(TRIES):
        with suppress(SystemError):  # of Python 3.11, while another thread parses (gh-106905)
            return ast.parse(text)
    return ast.parse(text)


def marked_messages(tree: ast.Module) -> Iterator[str | tuple[str, str]]:
    """Yields the messages that are marked in a module: those of _, N_ and value_error, and both forms of those
    of plural."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name("_" | "N_" | "value_error"), [ast.Constant(str(message))]):
                yield message
            case ast.Call(ast.Name("plural"), [ast.Constant(str(one)), ast.Constant(str(many)), _]):
                yield one, many


def page_messages(html: str) -> list[str]:
    """Returns the messages of the HTML of a page: _("Join")."""
    return PAGE_MESSAGE.findall(html)


def script_messages() -> Iterator[tuple[str | tuple[str, str], str]]:
    """Yields the messages of scripts: those of _ and both forms of those of plural, and the titles, the labels and the
    texts of buttons of components' HTML, each with its file."""
    for file in sorted((ROOT / "attnviz").rglob("*.js")):
        script, place = file.read_text(encoding="utf-8"), file.relative_to(ROOT).as_posix()
        for text in SCRIPT_MESSAGE.findall(script):
            yield json.loads(text), place
        for one, many in SCRIPT_PLURAL.findall(script):
            yield (json.loads(one), json.loads(many)), place
    for file in sorted(file.with_name(f"{file.parent.name}.html") for file in (ROOT / "attnviz").rglob("streamlit.js")):
        for texts in COMPONENT_MESSAGE.findall(file.read_text(encoding="utf-8")):
            yield max(texts, key=len), file.relative_to(ROOT).as_posix()


def class_messages() -> Iterator[tuple[str, str]]:
    """Yields the names of classes in menus, their help, and the labels of their widgets, each with its module."""
    for kind in (*SOURCES, *MASKS, *SCORES, *BIASES, *NORMALIZERS):
        place = f"{kind.__module__.replace('.', '/')}.py"
        yield title(kind), place
        if about := help_text(kind):
            yield about, place
        for field in settings(kind):
            yield field.metadata.get("label", field.name.capitalize()), place
            for choice in get_args(field.type):
                if isinstance(choice, str):
                    yield choice, place
            if empty := field.metadata.get("empty"):
                yield empty, place
    for metric in HEAD_METRICS:
        for message in (metric.name, metric.unit, help_text(type(metric))):
            yield message, "attnviz/analysis/head_metrics.py"
    for mask in NAMED_MASKS:
        for message in filter(None, (mask.name, mask.question, mask.size, *(one.refusal for one in mask.conventions))):
            yield message, "attnviz/masks/conventions.toml"
    for convention in EMPTY_ROW_CONVENTIONS:
        for message in (convention.name, convention.masking, convention.result, convention.libraries):
            yield message, "attnviz/masks/empty_rows.py"
    for group in GROUPS:
        yield group, "attnviz/masks/__init__.py"
    for stack in STACKS:
        yield f"{stack} #", "attnviz/layer.py"
    for family in {kind.family: None for kind in NORMALIZERS}:
        yield family.capitalize(), "attnviz/normalizers.py"


def path(code: str) -> Path:
    """Returns the path of the translations of a language."""
    return FOLDER / code / "LC_MESSAGES" / f"{DOMAIN}.po"


def read(code: str) -> Catalog:
    """Returns the translations of a language."""
    with path(code).open("rb") as file:
        return pofile.read_po(file, locale=code)


def compiled(catalog: Catalog) -> bytes:
    """Returns translations as gettext reads it."""
    file = io.BytesIO()
    write_mo(file, catalog)
    return file.getvalue()


def of_scripts(catalog: Catalog) -> str:
    """Returns what the browser reads of translations, which are the messages of scripts and of HTML: JSON of
    translations, of those with a number by CLDR's names of its rules, such as one and other."""
    texts: dict[str, str | dict[str, str]] = {}
    for message in catalog:
        if not all_strings(message.string) or not any(file.endswith((".js", ".html")) for file, _ in message.locations):
            continue
        if isinstance(message.id, str):
            texts[message.id] = str(message.string)
            continue
        rule = gettext.c2py(catalog.plural_expr)  # type: ignore[attr-defined]
        assert catalog.locale is not None
        texts[message.id[0]] = {catalog.locale.plural_form(n): message.string[rule(n)] for n in range(200)}
    return json.dumps(texts, ensure_ascii=False, indent=0, sort_keys=True) + "\n"


def update(catalog: Catalog, messages: Catalog) -> str:
    """Gives the translations of a language these messages and no others; returns a report of those that have no
    translation, and of those that were removed. Translations of removed messages are not kept."""
    created = catalog.creation_date  # kept, or else each extraction would change it
    catalog.update(messages, no_fuzzy_matching=True)
    catalog.creation_date, catalog.fuzzy = created, False
    removed = [str(message) for message in catalog.obsolete]
    catalog.obsolete.clear()
    missing = [
        message.id if isinstance(message.id, str) else message.id[0]
        for message in catalog
        if message.id and not all_strings(message.string)
    ]
    counts = {
        f"{catalog.locale}: {len(missing):,} of {len(catalog):,} messages have no translation": missing,
        f"{catalog.locale}: removed, because the code no longer has them: {len(removed):,}": removed,
    }
    return "\n".join(count + "".join(f"\n    {message!r}" for message in named) for count, named in counts.items())


def write(code: str) -> str:
    """Brings the translations of a language up to date; returns the report of `update`."""
    catalog = read(code) if path(code).exists() else Catalog(locale=code, project=DOMAIN, charset="utf-8")
    report = update(catalog, extracted())
    path(code).parent.mkdir(parents=True, exist_ok=True)
    with path(code).open("wb") as file:
        pofile.write_po(file, catalog, width=120, sort_output=True, include_lineno=False)
    path(code).with_suffix(".mo").write_bytes(compiled(catalog))
    path(code).with_suffix(".json").write_text(of_scripts(catalog), encoding="utf-8")
    return report


def all_strings(string: object) -> bool:
    """Returns whether a message has a translation, and all of its plural forms."""
    return all(string) if isinstance(string, list | tuple) else bool(string)


if __name__ == "__main__":
    for language in LANGUAGES:
        if language != ENGLISH:
            print(write(language))
