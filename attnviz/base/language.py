"""The words of the interface in the language of the person who reads them: gettext translations in languages/.

English texts are the names of the messages. What is put into a text has a name, `_("{count} tokens", count=4)`,
so that a translation can put it elsewhere; text from outside is such a value, and never a message. The language belongs
to a thread; where none was chosen, as in a notebook, it is English.
"""

import gettext
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from typing import Protocol

ENGLISH = "en"
LANGUAGES = {ENGLISH: "English", "de": "Deutsch"}  # each by its own name, in the order of menus
FOLDER = Path(__file__).parent / "languages"
DOMAIN = "attnviz"
EARLIER_OPTIONS = {"Pretrained": "Model", "Vortrainiert": "Model"}  # in older links, and their names now
_language: ContextVar[str | None] = ContextVar("language", default=None)
_default: list[Callable[[], str]] = [lambda: ENGLISH]


def current_language() -> str:
    """Returns the code of the language of this thread, such as de."""
    return _language.get() or _default[-1]()


def set_language(code: str) -> None:
    """Sets the language of this thread. Raises ValueError if there are no translations into it."""
    if code not in LANGUAGES:
        raise ValueError(f"There is no language {code!r}; there are {', '.join(LANGUAGES)}.")
    _language.set(code)


def set_default_language(find: Callable[[], str]) -> None:
    """Sets the function that returns the language of threads for which none was set."""
    _default[:] = [find]


@contextmanager
def language(code: str) -> Iterator[None]:
    """Sets the language of this thread within the block.

    Example:
        >>> with language("de"):
        ...     _("All lessons")
        'Alle Lektionen'
    """
    before = _language.get()
    set_language(code)
    try:
        yield
    finally:
        _language.set(before)


def _(message: str, /, **values: object) -> str:
    """Returns a message in the current language, with values in the places that it names; one that is not translated is
    English.

    Without values the braces of a message stay as they are, such as those of a formula.

    Example:
        >>> with language("de"):
        ...     _("Head {head}", head=4), _("{count} words without a translation", count=7)
        ('Kopf 4', '7 words without a translation')
    """
    text = _translations(current_language()).gettext(message) if message else ""
    return text.format(**values) if values else text


def plural(one: str, many: str, count: int, /, **values: object) -> str:
    """Returns one of two messages in the current language, by its rules for a number, with values in the places that it
    names.

    Example:
        >>> plural("{count} token", "{count} tokens", 4096, count="4,096")
        '4,096 tokens'
    """
    text = _translations(current_language()).ngettext(one, many, count)
    return text.format(**values) if values else text


def value_error(message: str, /, **values: object) -> ValueError:
    """Returns a ValueError with a message in the current language, with values in the places that it names.

    Example:
        >>> value_error("There are {count} heads.", count=4)
        ValueError('There are 4 heads.')
    """
    return ValueError(_(message, **values))


def later(message: str, /, **values: object) -> Callable[[], str]:
    """Returns a function that returns a message in the language that is current when it is called; the message is
    marked by N_.

    Example:
        >>> note = later(N_("Head {head}"), head=4)
        >>> with language("de"):
        ...     note()
        'Kopf 4'
    """
    return partial(_, message, **values)


def N_(message: str) -> str:
    """Marks a message for translation, and returns it as it is: it is translated where it is shown."""
    return message


class OptionName(Protocol):
    """Returns the name of an option in a language, by default the current one."""

    def __call__(self, option: str, code: str | None = None, /) -> str: ...


def option_name(option: str, code: str | None = None) -> str:
    """Returns the name of an option in menus: its translation, or that of the message with # for each of its numbers.

    Options are English in the code and in the files of lessons. `code` is the language, by default the current one.

    Example:
        >>> option_name("Head 3", "de"), option_name("3 · it", "de")
        ('Kopf 3', '3 · it')
    """
    code = code or current_language()
    if code == ENGLISH or not option:
        return option
    translations = _translations(code)
    if (whole := translations.gettext(option)) != option:
        return whole
    numbers = iter(re.findall(r"[0-9]+", option))
    translation = translations.gettext(re.sub(r"[0-9]+", "#", option))
    return re.sub("#", lambda _: next(numbers, "#"), translation)


def option_with_name(name: str, options: Iterable[str], names: OptionName | None = None) -> str | None:
    """Returns the option that has this name in some language, the current one first, or had it earlier; None if no
    option has. `names` gives the name of an option in a language, by default its translation.

    Example:
        >>> option_with_name("Kopf 3", ["Head 2", "Head 3"])
        'Head 3'
        >>> option_with_name("Pretrained", ["Model", "Toy"])
        'Model'
    """
    options, name_in = list(options), names or option_name
    codes, texts = [current_language(), *LANGUAGES], [name, EARLIER_OPTIONS.get(name, name)]
    return next(
        (option for text in texts for code in codes for option in options if name_in(option, code) == text), None
    )


def in_sentence(option: str, code: str | None = None) -> str:
    """Returns the name of an option within a sentence: in English with a small letter; German nouns keep theirs.

    Example:
        >>> in_sentence("Layer 0, head 1")
        'layer 0, head 1'
    """
    name = option_name(option, code)
    return name[:1].lower() + name[1:] if (code or current_language()) == ENGLISH else name


def preferred_language(accepted: str) -> str:
    """Returns the language that a browser likes best of those that there are; `accepted` is its Accept-Language header.

    Example:
        >>> preferred_language("fr;q=0.9, de-AT, en;q=0.5"), preferred_language("fr"), preferred_language("en;q=x")
        ('de', 'en', 'en')
    """
    wishes = []
    for wish in accepted[:1000].split(","):
        code, _separator, weight = wish.partition(";")
        quality = re.fullmatch(r"\s*q=([0-9]\.?[0-9]*)\s*", weight)
        wishes.append((-float(quality[1]) if quality else -1.0, code.strip().lower().partition("-")[0]))
    return next((code for weight, code in sorted(wishes, key=lambda one: one[0]) if code in LANGUAGES), ENGLISH)


@cache
def script_words(code: str) -> str:
    """Returns the messages of scripts in a language as JSON, by their English texts."""
    return "{}" if code == ENGLISH else (FOLDER / code / "LC_MESSAGES" / f"{DOMAIN}.json").read_text(encoding="utf-8")


@cache
def _translations(code: str) -> gettext.NullTranslations:
    return gettext.NullTranslations() if code == ENGLISH else gettext.translation(DOMAIN, FOLDER, [code])
