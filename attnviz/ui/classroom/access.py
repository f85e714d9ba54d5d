"""Who may do what in a class, and how often: cookies, limits, and the answers to those who may not."""

import json
import re
from ipaddress import ip_address, ip_network
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from attnviz.base import settings
from attnviz.base.language import _
from attnviz.classroom.live_class import LiveClass
from attnviz.classroom.store import StoreError, UnknownClass
from attnviz.ui.classroom import server_classes
from attnviz.ui.classroom.rate_limit import RateLimit
from attnviz.ui.server import hosting

TEACHER, PARTICIPANT = "attnviz_teacher", "attnviz_participant"  # cookies
LARGEST_BODY = 64 << 10  # bytes of a request
POSTS = RateLimit(burst=30, per_second=5)  # of a participant, a teacher, or an address without either
POSTS_OF_ADDRESS = RateLimit(burst=2_000, per_second=300)  # which a whole school may share; cookies can be made up
WRONG_CODES = RateLimit(burst=100, per_second=1)  # of an address, which a whole school may share
STARTS = RateLimit(burst=100, per_second=1 / 60)  # of an address
JOINS = RateLimit(burst=150, per_second=1)  # of an address, which a whole school may share, and a class
NETWORK = 64  # bits of an IPv6 address that one person's network has; the others are its own to choose


class Refusal(Exception):
    """A request that is refused, with a status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def problem_response(request: Request, problem: Exception) -> Response:
    """Returns the answer to a request that went wrong: a sentence for the person at the screen."""
    match problem:
        case Refusal(status=status):
            return PlainTextResponse(str(problem), status)
        case UnknownClass():
            return PlainTextResponse(str(problem), 404)
        case StoreError():
            return PlainTextResponse(str(problem), 503)
    return PlainTextResponse(str(problem), 400)


def open_class(request: Request, code: str | None = None) -> LiveClass:
    """Returns the live class with a code, by default the code in the address. Raises UnknownClass.

    Raises Refusal if too many wrong codes have come from the address of somebody who is not in the class: right and
    wrong codes get the same answer then.
    """
    client = client_address(request)
    try:
        live = server_classes.classes().open(request.path_params["code"] if code is None else code)
    except UnknownClass:
        check_rate(WRONG_CODES, client)
        raise
    if WRONG_CODES.is_spent(client) and not _is_in(live, request):
        raise _too_often()
    return live


def check_post(request: Request) -> None:
    """Raises Refusal for what another site's page has sent, and for too many posts."""
    check_rate(POSTS_OF_ADDRESS, client_address(request))
    teacher = request.cookies.get(TEACHER, "")[:64]  # no longer than one is; it may be of no class
    check_rate(POSTS, cookie_of_participant(request) or teacher or client_address(request))
    check_origin(request)


def check_origin(request: Request) -> None:
    """Raises Refusal for what a page of another site has sent."""
    if not hosting.is_own_page(request.headers):
        raise Refusal(403, _("Only pages of this app may send this."))


async def read_body(request: Request) -> bytes:
    """Returns what was sent. Raises Refusal if that is too much, or if the client leaves before the end."""
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > LARGEST_BODY:
                raise Refusal(413, _("At most {size} KB may be sent.", size=LARGEST_BODY >> 10))
    except ClientDisconnect:
        raise Refusal(400, _("What was sent has no end.")) from None
    return body


def parse_json(body: bytes) -> dict[str, Any]:
    """Returns the JSON object that was sent. Raises Refusal if it is not one."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(400, _("What was sent is not JSON.")) from None
    if not isinstance(content, dict):
        raise Refusal(400, _("What was sent is not a JSON object."))
    return content


def cookie_of_participant(request: Request) -> str:
    """Returns the participant of a browser; empty if it has none yet."""
    name = request.cookies.get(PARTICIPANT, "")
    return name if re.fullmatch(r"[0-9a-f]{32}", name) else ""


def participant(live: LiveClass, request: Request) -> str:
    """Returns the participant of a browser, who has joined the class by now.

    Raises Refusal for a browser without a cookie, as a preview of a link is, or if too many have joined from its
    address.
    """
    name = cookie_of_participant(request)
    if not name:
        raise Refusal(403, _("Open the page of the class first; your browser must keep its cookie."))
    if not live.has_joined(name):
        check_rate(JOINS, f"{client_address(request)} {live.code}")
        live.join(name)
    return name


def check_teacher(live: LiveClass, request: Request) -> None:
    """Raises Refusal unless the teacher of a class asks."""
    if not _is_teacher(live, request):
        raise Refusal(403, _("Only the person who started the class may do this."))


def class_of_teacher(cookie: str) -> LiveClass | None:
    """Returns the live class of a teacher's cookie; None if there is none or it has ended. Raises StoreError."""
    if not cookie:
        return None
    try:
        live = server_classes.classes().open(cookie.partition(".")[0])
        return live if live.is_teacher(_key(cookie, live.code)) else None
    except UnknownClass:
        return None


def set_cookie(response: Response, name: str, value: str, path: str) -> None:
    """Sets a cookie that a browser keeps as long as the server keeps a class."""
    seconds, is_secure = round(settings.class_hours() * 3600), hosting.has_tls()
    response.set_cookie(name, value, seconds, path=path, secure=is_secure, httponly=True, samesite="lax")


def _is_in(live: LiveClass, request: Request) -> bool:
    name = cookie_of_participant(request)
    return bool(name and live.has_joined(name)) or _is_teacher(live, request)


def _is_teacher(live: LiveClass, request: Request) -> bool:
    return live.is_teacher(_key(request.cookies.get(TEACHER, ""), live.code))


def _key(cookie: str, code: str) -> str:
    """The key of a teacher's cookie, if it is of this class."""
    owner, _dot, key = cookie.partition(".")
    return key if owner == code else ""


def client_address(request: Request) -> str:
    """Returns the address that a request came from; of IPv6 its network."""
    name = request.client.host if request.client else ""
    try:
        parsed = ip_address(name)
    except ValueError:
        return name
    if parsed.version == 6 and not parsed.ipv4_mapped:
        return str(ip_network((int(parsed), NETWORK), strict=False))
    return str(parsed)


def check_rate(limit: RateLimit, name: str) -> None:
    """Raises Refusal if somebody does something too often."""
    if not limit.take(name):
        raise _too_often()


def _too_often() -> Refusal:
    return Refusal(429, _("That is too often. Wait a minute, and try again."))
