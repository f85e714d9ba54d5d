"""Links into the app."""

from collections.abc import Iterable
from urllib.parse import urlencode

Link = tuple[tuple[str, str], ...]  # the parameters; one that has several values comes several times


def page_address(page: str, link: Iterable[tuple[str, str]], safe: str = "") -> str:
    """Returns the address of a page with the parameters of a link, below that of the app; `safe` characters stand in it
    as they are.

    Example:
        >>> page_address("explore", [("head", "Head 1")]), page_address("lessons", [])
        ('explore?head=Head+1', 'lessons')
    """
    return f"{page}?{urlencode([*link], safe=safe)}".rstrip("?")
