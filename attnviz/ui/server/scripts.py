"""Serves plotly.js and the JavaScript modules of the components, cached for a year; their addresses change with
their content."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import streamlit as st
from markupsafe import Markup
from plotly.offline import get_plotlyjs, get_plotlyjs_version
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from attnviz.base.app_files import PACKAGE
from attnviz.base.language import ENGLISH, current_language, script_words
from attnviz.ui.server.addresses import address
from attnviz.ui.server.streamlit_internals import CLIENT_FILES

_MODULES = {file.relative_to(PACKAGE).as_posix(): file.read_bytes() for file in sorted(PACKAGE.rglob("*.js"))}
_VERSION = hashlib.sha256(b"\0".join(_MODULES.values())).hexdigest()[:16]
_PLOTLY = f"/vendor/plotly-{get_plotlyjs_version()}.min.js"
_FOLDER = f"/vendor/attnviz-{_VERSION}/"
# A hint for the browser to compile all functions while the script arrives, off the main thread. Without it most of the
# script is parsed twice, the second time on the main thread.
_COMPILE_AHEAD = "//# allFunctionsCalledOnLoad\n"
# Streamlit's names of what a page of this app draws first.
WIDGETS = ("BidiComponent", "Button", "Checkbox", "Html", "Multiselect", "NumberInput", "Selectbox", "TextInput")
_HEADERS = {"cache-control": "public, max-age=31536000, immutable"}


def files() -> dict[str, bytes]:
    """Returns all scripts by their addresses."""
    return {plotly_address(): (_COMPILE_AHEAD + get_plotlyjs()).encode()} | {
        address(_FOLDER + name): script for name, script in _MODULES.items()
    }


def routes() -> list[Route]:
    """Returns a route for each script."""

    def route(path: str, script: bytes) -> Route:
        async def serve(request: Request) -> Response:
            return Response(script, media_type="text/javascript", headers=_HEADERS)

        return Route(path, serve)

    return [route(path, script) for path, script in files().items()]


def words_element() -> Markup:
    """Returns the element of a page that holds the words of scripts in the current language (chart/words.js); nothing
    for English, in which they are written."""
    if current_language() == ENGLISH:
        return Markup("")
    words = script_words(current_language()).replace("<", "\\u003c")
    return Markup('<script type="application/json" id="attnviz-words">{}</script>').format(Markup(words))  # noqa: S704


def early_elements() -> Markup:
    """Returns the elements of a page's head that start `navigation`, and load plotly.js and the modules of charts and
    WIDGETS ahead of drawing.

    Streamlit's client requests the module of a widget when it first draws one, and what that module imports when it
    has arrived: several round trips, one after the other.
    """
    folder = CLIENT_FILES / "js"
    widgets = sorted(_imports(folder, WIDGETS) - _imports(folder, ["index"]))
    charts = [_FOLDER + name for name in _MODULES if name.startswith("chart/")]
    modules = [*charts, *(f"/static/js/{name}" for name in widgets)]
    navigation = Markup('<script type="module" crossorigin src="{}"></script>')
    plotly = Markup('<script defer src="{}"></script>')
    preload = Markup('<link rel="modulepreload" crossorigin href="{}">')
    return (
        navigation.format(address(_FOLDER + "ui/navigation/main.js"))
        + plotly.format(plotly_address())
        + Markup().join(preload.format(address(module)) for module in modules)
    )


def _imports(folder: Path, components: Iterable[str]) -> set[str]:
    """Returns the modules of Streamlit's components and all that they import, by their file names."""
    waiting = [file.name for component in components for file in folder.glob(f"{component}.*.js")]
    modules: set[str] = set()
    while waiting:
        if (name := waiting.pop()) not in modules:
            modules.add(name)
            waiting += re.findall(r'(?:from|import)"\./([^"]+\.js)"', (folder / name).read_text(encoding="utf-8"))
    return modules


def plotly_address() -> str:
    """Returns the address of plotly.js."""
    return address(_PLOTLY)


def module_address(name: str) -> str:
    """Returns the address of a module of the package."""
    return address(_FOLDER + name)


def components() -> dict[str, dict[str, str]]:
    """Returns the entry point and the HTML of each component, by its name, for pages outside of Streamlit."""
    return {
        _name(folder): {
            "module": f"{folder.relative_to(PACKAGE).as_posix()}/streamlit.js",
            "html": _part(folder, "html"),
        }
        for folder in _component_folders()
    }


def component_styles() -> str:
    """Returns the styles of all components."""
    return "".join(_part(folder, "css") for folder in _component_folders())


def _component_folders() -> list[Path]:
    return [file.parent for file in sorted(PACKAGE.rglob("streamlit.js"))]


def _name(folder: Path) -> str:
    return f"attnviz_{folder.name}"


def _part(folder: Path, kind: str) -> str:
    return (folder / f"{folder.name}.{kind}").read_text(encoding="utf-8")


@st.cache_resource(show_spinner=False)
def mount(component: str) -> Callable[..., Any]:
    """Returns a component made of the HTML and the modules in its folder of the package, whose entry point is
    streamlit.js. A page has its styles from the beginning.

    Streamlit wants its script as one text, and sends it with each change; this one imports the modules in parallel.
    """
    folder = PACKAGE / component
    names = [name for name in _MODULES if name.startswith(f"{component}/")]
    script = f"""const base = new URL({json.dumps(address(_FOLDER))}, location.href);
    for (const name of {json.dumps(names)}) {{
      const link = document.createElement("link");
      Object.assign(link, {{ rel: "modulepreload", href: new URL(name, base).href }});
      document.head.append(link);
    }}
    const {{ default: show }} = await import(new URL("{component}/streamlit.js", base).href);
    export default show;
    """
    return st.components.v2.component(_name(folder), html=_part(folder, "html"), js=script, isolate_styles=False)
