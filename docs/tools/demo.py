"""Writes the live demo of the documentation, pages that need neither Python nor a network: `make demo`.

Each is the viewer of a link to the app, with a heading and links to the others. `python -m docs.tools.demo why` writes
that of this name alone, and `--into FOLDER` writes them elsewhere.
"""

from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

import attnviz
from attnviz.notebook import html_page

FOLDER = Path(__file__).parents[1] / "demo"
MOST_BYTES = 6_000_000  # of a page


@dataclass(frozen=True)
class DemoPage:
    """A page of the demo: a link to the app, and what a visitor reads above its viewer."""

    name: str
    link: str
    title: str
    hint: str  # what to do


PAGES = (
    DemoPage(
        "explore",
        "/explore?mosaic=All+layers&pinned=10+%C2%B7+it",
        "What does each word look at, in every head?",
        "Click a small map: each is a head of MiniLM, a real model. Point at a cell to read it, and click it to see "
        "all that its word looks at.",
    ),
    DemoPage(
        "masks",
        "/masks?mask-a=full&mask-b=causal&pinned=10+%C2%B7+it",
        "What do two masks do to the same scores?",
        "Click a mask: it becomes mask B. Then click a head, and point at a cell: each map says what it gives it.",
    ),
    DemoPage(
        "why",
        "/why",
        "Why does a model say this word?",
        "SmolLM2 says “Mary”. Its preference over “John” is a sum over heads and MLPs: click a cell, then open what "
        "the head has found.",
    ),
    DemoPage(
        "write",
        "/write",
        "What does a language model look at while it writes?",
        "Press Play. SmolLM2 wrote these words; click a word to see which words it was read from, or another head.",
    ),
)
_STYLE = Markup("""<style>
.demo {
  color: light-dark(#1f2430, #f2f4f8);
  font: 16px/1.45 "Source Sans", "Source Sans Pro", "Segoe UI", Helvetica, Arial, sans-serif;
  padding: 4px 12px;
}
.demo a { color: light-dark(#0b6bcb, #4bc0fa); }
.demo h1 { font-size: clamp(21px, 3.4vw, 28px); line-height: 1.2; margin: 10px 0 4px; }
.demo p { margin: 0 0 6px; max-width: 62em; }
.demo ul { display: flex; flex-wrap: wrap; gap: 2px 18px; list-style: none; margin: 0; padding: 0; }
.demo [aria-current] { color: inherit; font-weight: 700; text-decoration: none; }
footer.demo { font-size: 14px; opacity: 0.85; padding-bottom: 16px; }
.demo code { overflow-wrap: anywhere; }
html { background: light-dark(#ffffff, #0e1117); }
</style>
""")
_HEADER = Markup("""<header class="demo">
<nav aria-label="Demo"><ul>{}</ul></nav>
<h1>{}</h1>
<p>{}</p>
</header>
""")
# The page around a frame says in the address which colors it has; by default they are those of the system.
_SCRIPT = Markup("""<script>
const follow = () => {
  const { hash } = location;
  document.documentElement.style.colorScheme = { "#light": "light", "#dark": "dark" }[hash] ?? "";
  for (const link of document.querySelectorAll(".demo nav a")) link.hash = hash;
};
addEventListener("hashchange", follow);
follow();
</script>
""")
_ITEM = Markup('<li><a href="{}.html"{}>{}</a></li>')
_CURRENT = Markup(' aria-current="page"')
_FOOTER = Markup("""<footer class="demo">
<p>This is a recorded page, which needs no network. The app does this with your own text, by two commands in a
checkout: <code>pip install ".[all]" &amp;&amp; attnviz models install</code> and <code>attnviz</code>. In Python, a
line writes the page, in up to a minute: <code>attnviz.view("{}").save("{}.html")</code>.</p>
</footer>
""")


def opening(page: DemoPage) -> Markup:
    """Returns what stands before the viewer: the styles of the page, links to the others, its title, and what to do."""
    items = (_ITEM.format(each.name, _CURRENT if each is page else "", each.name.capitalize()) for each in PAGES)
    return _STYLE + _HEADER.format(Markup().join(items), page.title, page.hint) + _SCRIPT


def write(page: DemoPage, folder: Path) -> Path:
    """Writes a page, and returns its path. Raises ValueError if it is too large."""
    viewer = attnviz.view(page.link)
    viewer.key = page.name  # it tells viewers of a page apart; this way the same content is the same file
    path = folder / f"{page.name}.html"
    fragments = [opening(page), viewer.file_html(), _FOOTER.format(page.link, page.name)]
    size = len(html_page.write_page(fragments, path, f"attnviz: {page.title}").encode())
    if size > MOST_BYTES:
        raise ValueError(f"{path} has {size:,} bytes; a page has at most {MOST_BYTES:,}. Choose a shorter text.")
    print(f"{path}: {size / 1e6:.1f} MB", flush=True)
    return path


def main() -> None:
    names = [page.name for page in PAGES]
    parser = ArgumentParser("python -m docs.tools.demo", description="Writes the live demo of the documentation.")
    parser.add_argument("names", nargs="*", default=names, help=f"of {', '.join(names)}; all if none is given")
    parser.add_argument("--into", type=Path, default=FOLDER, help="the folder that they are written to")
    chosen = parser.parse_args()
    chosen.into.mkdir(exist_ok=True)
    for page in PAGES:
        if page.name in chosen.names:
            write(page, chosen.into)


if __name__ == "__main__":
    main()
