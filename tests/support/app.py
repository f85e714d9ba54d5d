"""A page of the app without a browser: opened by its link, and read as a person reads it."""

import re
from collections.abc import Iterable
from html import unescape
from pathlib import Path

from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).parents[2]
ROUTER = ROOT / "attnviz" / "ui" / "router.py"


def open_page(name: str = "explore", **link: object) -> AppTest:
    """Runs a page once, as its link opens it; a parameter's `_` stands for `-`, unless there is a dot in its name."""
    app = AppTest.from_file(str(ROUTER), default_timeout=180)
    app.switch_page(f"../../pages/{name}.py")
    for parameter, value in link.items():
        parameter = parameter if "." in parameter else parameter.replace("_", "-")
        app.query_params[parameter] = value if isinstance(value, list) else str(value)
    return app.run()


def open_link(name: str, link: Iterable[tuple[str, str]]) -> AppTest:
    """Runs a page once, as a link with these parameters and values opens it."""
    values: dict[str, object] = {}
    for parameter, value in link:
        values[parameter] = [*values.get(parameter, []), value]  # type: ignore[misc]
    return open_page(name, **values)


def healthy(app: AppTest, charts: int = 0) -> AppTest:
    """The page, which ran to its end and has at least this number of charts."""
    assert not app.exception
    assert len(app.get("bidi_component")) >= charts, "no chart"
    return app


def ok(app: AppTest) -> AppTest:
    """The page, which ran to its end and shows no error."""
    assert not app.exception
    assert not app.error, [error.value for error in app.error]
    return app


def errors(app: AppTest) -> str:
    """The errors and warnings on the page, without the backslashes that keep them text."""
    assert not app.exception
    return " ".join(message.value for message in (*app.error, *app.warning)).replace("\\", "")


def contents(app: AppTest) -> str:
    """All HTML, messages, captions and Markdown on the page, without the backslashes that keep them text, and without
    the explanations of words."""
    assert not app.exception
    bodies = [html.body for html in app.get("html")]
    bodies += [text.value for text in (*app.error, *app.warning, *app.info, *app.caption, *app.markdown)]
    return unescape(re.sub("</?abbr[^>]*>", "", " ".join(bodies))).replace("\\", "")


def linked(app: AppTest, parameter: str) -> list[str]:
    """The values of a parameter in the page's link; none where the link does not have it."""
    value = app.query_params.get(parameter, [])
    return value if isinstance(value, list) else [value]
