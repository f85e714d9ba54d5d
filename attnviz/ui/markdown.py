"""Text from outside, shown as text."""

import re


def plain(text: str) -> str:
    """The text for a place that reads Markdown, so that every character stands for itself."""
    return re.sub(r"([\\`*_{}\[\]()#+\-.!|$:<>~&=^])", r"\\\1", text).replace("\n", " ")
