"""The pages of classes: the entrance, the start of a class, and the page of a follower."""

import base64
import json
import secrets
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs, quote

from anyio import to_thread
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from attnviz.base import settings
from attnviz.base.app_files import ASSETS
from attnviz.base.language import current_language
from attnviz.classroom.page_link import check_link
from attnviz.classroom.store import UnknownClass
from attnviz.page.html import translated
from attnviz.ui.classroom import access, server_classes
from attnviz.ui.classroom.class_json import class_address
from attnviz.ui.server import scripts, styles
from attnviz.ui.server.addresses import address
from attnviz.ui.server.streamlit_internals import CLIENT_FILES

_FOLDER = Path(__file__).parent
_FONT = (
    '<style>@font-face {{ font-family: "Source Sans"; font-weight: 100 900; font-display: swap; '
    'src: url("{}") format("woff2") }}</style>'
)


def entrance_page(request: Request) -> Response:
    """The page that asks for a code, and lets a class be started."""
    problem = ""
    if "code" in request.query_params:
        try:
            live = access.open_class(request, request.query_params["code"])
            return RedirectResponse(class_address(live.code), 303)
        except UnknownClass as unknown:
            problem = str(unknown)
    back = _page_or_start(request.query_params.get("back", ""))
    page = _page(
        "entrance.html",
        address=address("/class"),
        back=back,
        app=address("/"),
        hours=round(settings.class_hours()),
        problem=problem,
    )
    return HTMLResponse(page, 404 if problem else 200)


async def start_class(request: Request) -> Response:
    """Starts a class, unless this browser teaches one already, and leads back to the page where it was started, whose
    run then belongs to the teacher."""
    access.check_origin(request)
    form = parse_qs((await access.read_body(request)).decode("utf-8", "replace"))
    response = RedirectResponse(address(f"/{_page_or_start(form.get('back', [''])[0])}"), 303)
    if await to_thread.run_sync(access.class_of_teacher, request.cookies.get(access.TEACHER, "")):
        return response
    access.check_rate(access.STARTS, access.client_address(request))
    teaching = await to_thread.run_sync(server_classes.classes().start)
    access.set_cookie(response, access.TEACHER, f"{teaching.code}.{teaching.key}", address("/"))
    return response


def follower_page(request: Request) -> Response:
    """The page of a follower, who joins when its script reads the class: previews of a link join nothing."""
    try:
        live = access.open_class(request)
    except UnknownClass:
        return RedirectResponse(f"{address('/class')}?code={quote(request.path_params['code'])}", 303)
    participant = access.cookie_of_participant(request) or secrets.token_hex(16)
    described = {
        "address": class_address(live.code),
        "app": address("/"),
        "code": live.code,
        "components": scripts.components(),
    }
    page, script = json.dumps(described), scripts.module_address("ui/classroom/follow.js")
    response = HTMLResponse(_page("follow.html", code=live.code, app=address("/"), page=page, script=script))
    response.headers["cache-control"] = "no-store"
    access.set_cookie(response, access.PARTICIPANT, participant, address("/class"))
    return response


def _page_or_start(link: str) -> str:
    try:
        check_link(link)
    except ValueError:
        return "explore"
    return link


def _page(name: str, **values: object) -> str:
    page, body = (translated((_FOLDER / each).read_text(encoding="utf-8")) for each in ("page.html", name))
    head = _head() + scripts.words_element()
    return page.format(lang=current_language(), head=head, icon=_icon(), body=body.format(**values))


@cache
def _icon() -> str:
    icon = base64.b64encode((ASSETS / "icon.svg").read_bytes()).decode()
    return f"data:image/svg+xml;base64,{icon}"


@cache
def _head() -> Markup:
    css = "".join((_FOLDER / name).read_text(encoding="utf-8") for name in ("classroom.css", "pages.css"))
    rules = Markup("<style>{}</style>").format(Markup(scripts.component_styles() + css))  # noqa: S704
    return styles.style_element() + _font() + rules


def _font() -> Markup:
    """The font of the app, from Streamlit's own files; nothing if they have another one."""
    files = (CLIENT_FILES / "media").glob("SourceSansVF-Upright*.woff2")
    return Markup("").join(Markup(_FONT).format(address(f"/static/media/{file.name}")) for file in files)  # noqa: S704
