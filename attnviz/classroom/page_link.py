"""Links of pages, as a class sends them: the name of a page and its state."""

import re
from urllib.parse import parse_qsl

from attnviz.base.app_pages import PAGES
from attnviz.base.formatting import grouped
from attnviz.base.language import value_error
from attnviz.base.link import page_address

LONGEST_LINK = 8_000
OF_THE_SENDER = ("lang", "present", "write")  # parameters
LINK = re.compile(r"([a-z][a-z0-9_-]{0,40})(\?[!-~]*)?")  # a page and a query, percent-encoded


def check_link(link: str) -> None:
    """Raises ValueError if this is not the name of a page of the app, with or without a query."""
    match = LINK.fullmatch(link) if isinstance(link, str) and len(link) <= LONGEST_LINK else None
    if not match or match[1] not in PAGES:
        raise value_error(
            "A link is the name of a page and its state, such as explore?head=Head+1, of at most {most} characters.",
            most=grouped(LONGEST_LINK),
        )


def without_sender(link: str) -> str:
    """Returns a link without what is about its sender: the teacher opens it in her own language and her own draft."""
    page, _mark, query = link.partition("?")
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name not in OF_THE_SENDER]
    return page_address(page, kept)
