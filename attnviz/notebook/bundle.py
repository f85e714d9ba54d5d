"""The viewer's JavaScript modules as one script, and its styles."""

import gzip
import json
import re
from functools import cache
from pathlib import Path

from plotly.offline import get_plotlyjs

from attnviz.figures.themes import CSS_PROPERTIES

_PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(r'from "(\.[^"]+)"')
# A notebook takes one text as a script, and has no addresses at which modules could be found.
_LOADER = """const modules = %s;
const addresses = {};
for (const [name, source] of Object.entries(modules)) {
  const linked = source.replace(/from "([^"]+)"/g, (whole, path) =>
    path in modules ? `from "${addresses[path]}"` : whole);
  addresses[name] = URL.createObjectURL(new Blob([linked], { type: "text/javascript" }));
}
const entry = await import(addresses["%s"]);
"""


def module_script(entry: str) -> str:
    """Returns a script that loads a module of the package and all that it imports, as `entry`."""
    modules: dict[str, str] = {}

    def add(name: str) -> None:
        source = (_PACKAGE / name).read_text(encoding="utf-8")
        paths = {path: (_PACKAGE / name).parent.joinpath(path).resolve() for path in _IMPORT.findall(source)}
        names = {path: file.relative_to(_PACKAGE).as_posix() for path, file in paths.items()}
        for one in names.values():
            if one not in modules:
                add(one)
        modules[name] = _IMPORT.sub(lambda match: f'from "{names[match[1]]}"', source)

    add(entry)
    return _LOADER % (json.dumps(modules), entry)


@cache
def styles() -> str:
    """Returns the styles of charts and of the viewer."""
    files = (_PACKAGE / "chart" / "base.css", _PACKAGE / "chart" / "chart.css", _PACKAGE / "notebook" / "viewer.css")
    return CSS_PROPERTIES + "".join(file.read_text(encoding="utf-8") for file in files)


@cache
def boot_script() -> str:
    """Returns the script that starts the viewers of a page without Python."""
    return (_PACKAGE / "notebook" / "boot.js").read_text(encoding="utf-8")


@cache
def chart_template() -> str:
    """Returns the HTML of a chart."""
    return (_PACKAGE / "chart" / "chart.html").read_text(encoding="utf-8")


@cache
def plotly_script() -> bytes:
    """Returns plotly.js, compressed."""
    return gzip.compress(get_plotlyjs().encode(), 9)
