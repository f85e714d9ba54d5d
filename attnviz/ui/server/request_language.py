"""The language in which a request is answered."""

from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.types import Scope

from attnviz.base.language import LANGUAGES, preferred_language

KEY = "lang"  # in the link


def request_language(scope: Scope) -> str:
    """Returns the language in which a request is answered: that of its address, or else of the browser."""
    linked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get(KEY, [""])[0]
    return linked if linked in LANGUAGES else preferred_language(Headers(scope=scope).get("accept-language", ""))
