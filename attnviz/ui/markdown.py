"""Escaping of text for Markdown."""

import re


def plain(text: str) -> str:
    """Returns text escaped for Markdown."""
    return re.sub(r"([\\`*_{}\[\]()#+\-.!|$:<>~&=^])", r"\\\1", text).replace("\n", " ")
