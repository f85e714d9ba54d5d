"""The viewer's JavaScript modules as one script, and its styles."""

import gzip
import json
import re
from functools import cache
from posixpath import dirname, join, normpath

from plotly.offline import get_plotlyjs

from attnviz.base.app_files import PACKAGE
from attnviz.figures.themes import CSS_PROPERTIES

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
        source = text(name)
        names = {path: normpath(join(dirname(name), path)) for path in _IMPORT.findall(source)}
        for one in names.values():
            if one not in modules:
                add(one)
        modules[name] = _IMPORT.sub(lambda match: f'from "{names[match[1]]}"', source)

    add(entry)
    return _LOADER % (json.dumps(modules), entry)


@cache
def text(name: str) -> str:
    """Returns the text of a file of the package."""
    return (PACKAGE / name).read_text(encoding="utf-8")


def styles() -> str:
    """Returns the styles of charts and of the viewer."""
    pages = ("page/blocks.css", "ui/write/write.css", "ui/path/path.css", "notebook/viewer.css")
    files = ("chart/base.css", "chart/chart.css", *pages)
    return CSS_PROPERTIES + "".join(map(text, files))


@cache
def plotly_script() -> bytes:
    """Returns plotly.js, compressed."""
    return gzip.compress(get_plotlyjs().encode(), 9, mtime=0)  # the same bytes at any time
