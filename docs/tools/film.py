"""Records the film of the README from the running app: `make pictures PICTURES=film`.

A scene acts on a page of the app and says how long each frame is shown. A frame is taken once the page is drawn, so
that the film is the same on a slow machine and on a fast one.
"""

from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page

from docs.tools.still import still, wait_until_drawn
from tests.support.browser import OPEN_IN_PLACE, PATIENCE, UNTIL, AppPage, Explore, Masks, place_of

FILMS = {theme: f"film-{theme}" for theme in ("light", "dark")}
SIZE, CAPTION, QUALITY = (1200, 672), 72, 80  # the caption stands below what is shown of a page
SIDEBAR = 286  # pixels of a page, which are not shown
STEP = 80  # milliseconds of a frame in which something moves
LOGO = Path(__file__).parents[2] / "assets" / "logo.svg"
# Over the page are the caption and a pointer, which screenshots have not; in pixels of the film.
OVERLAY = """([zoom, left, width, height, logo]) => {
    const over = document.createElement("div");
    over.id = "film";
    over.innerHTML = `<style>
        #film {
            color-scheme: light dark; inset: 0; pointer-events: none; position: fixed; z-index: 10000000;
            zoom: ${zoom};
        }
        #film > * { position: absolute; }
        #film-caption {
            align-items: center; background: light-dark(#e6edf4, #232a37); box-sizing: border-box;
            color: light-dark(#1f2430, #f2f4f8); display: flex; font: 600 33px "Source Sans", sans-serif;
            height: ${height}px; justify-content: space-between; left: ${left}px; padding: 0 30px; width: ${width}px;
            box-shadow: 0 9px 0 8px light-dark(#e6edf4, #232a37); /* over what a pixel at an edge has of the page */
        }
        #film-caption svg { flex: none; height: 36px; }
        #film-pointer { height: 96px; width: 96px; }
        #film-pointer circle { fill: #e8590c33; stroke: #e8590c; stroke-width: 2.5; }
    </style>
    <div id="film-caption"><span></span>${logo}</div>
    <svg id="film-pointer" viewBox="-40 -40 80 80"><circle r="0" />
        <path d="M0 0v23.5l5.6-5.2 3.6 8.6 4.4-1.9-3.6-8.4 7.6-.6z" fill="#111" stroke="#fff" stroke-width="1.8" />
    </svg>`;
    document.documentElement.append(over);
}"""
CAPTIONED = """([text, top]) => {
    const caption = document.querySelector("#film-caption");
    caption.style.top = `${top}px`;
    caption.firstElementChild.textContent = text;
}"""
POINTED = """([x, y, ring]) => {
    const pointer = document.querySelector("#film-pointer");
    Object.assign(pointer.style, { left: `${x - 48}px`, top: `${y - 48}px` });
    pointer.firstElementChild.setAttribute("r", ring);
    pointer.firstElementChild.style.display = ring ? "" : "none";
}"""

Frame = tuple[Image.Image, int]  # and the milliseconds for which it is shown
Point = tuple[float, float]


class Film:
    """The frames of a film, of which one page after another is shown."""

    def __init__(self, browser: Browser, address: str, theme: str) -> None:
        self.browser, self.address, self.theme = browser, address, theme
        self.frames: list[Frame] = []

    def open(self, link: str, width: int = 1020, top: int = 205, height: int = 0, hidden: str = "") -> Page:
        """Opens a page by its link, and returns it. So many of its pixels are shown in the width, from `top` on."""
        self.scale, self.top = SIZE[0] / width, top
        shown = ceil(SIZE[1] / self.scale) + 1
        if self.frames:
            self.page.close()
        self.page = self.browser.new_page(
            viewport={"width": SIDEBAR + width, "height": height or top + shown},
            device_scale_factor=self.scale,
            color_scheme=self.theme,
            bypass_csp=True,
        )
        self.page.set_default_timeout(1000 * PATIENCE)
        self.clip = {"x": SIDEBAR, "width": width, "height": shown}  # of which less than a pixel is cut
        self.page.goto(f"{self.address}/{link}")
        wait_until_drawn(self.page)
        self.page.add_style_tag(content=f":is(.attnviz-tools, {hidden}) {{ display: none !important; }}")
        self.page.evaluate(OVERLAY, [1 / self.scale, SIDEBAR * self.scale, SIZE[0], CAPTION, LOGO.read_text("utf-8")])
        self.fades = True
        return self.page

    def say(self, text: str, top: int | None = None) -> None:
        """Shows a caption from the next frame on, and the page from `top` on."""
        if top is not None:
            self.top, self.fades = top, True
        self.page.evaluate(CAPTIONED, [text, self.top * self.scale + SIZE[1] - CAPTION])

    def put(self, place: Point, ring: int = 0) -> None:
        """Puts the pointer at a point of the page."""
        self.page.mouse.move(*place)
        self.page.evaluate(POINTED, [*(self.scale * side for side in place), ring])
        self.pointer = place

    def hold(self, milliseconds: int) -> None:
        """Takes a frame that is shown for so long; the first of another page fades in."""
        image = still(self.page, clip=self.clip | {"y": self.top}).crop((0, 0, *SIZE))
        if self.fades and self.frames:
            self.frames += fade(self.frames[-1][0], image)
        self.fades = False
        if self.frames and self.frames[-1][0] == image:
            milliseconds += self.frames.pop()[1]
        self.frames.append((image, milliseconds))

    def move(self, to: Point, frames: int = 6) -> None:
        """Moves the pointer, slower at both ends."""
        x, y = self.pointer
        for frame in range(1, frames + 1):
            part = frame / frames
            part = part * part * (3 - 2 * part)
            self.put((x + part * (to[0] - x), y + part * (to[1] - y)))
            self.hold(STEP)

    def click(self, done: str) -> None:
        """Clicks where the pointer is, and waits until a JavaScript expression is true."""
        for ring in (9, 15):
            self.put(self.pointer, ring)
            self.hold(STEP)
        self.page.mouse.click(*self.pointer)
        self.put(self.pointer)
        self.wait(done)

    def wait(self, done: str) -> None:
        self.page.evaluate(UNTIL.replace("FUNCTION", f"() => {done}"), None)
        wait_until_drawn(self.page)


def explore(film: Film) -> None:
    page = film.open("explore?pinned=none", 1180)
    app = Explore(page, film.address)
    film.put((SIDEBAR + 660, 680))
    film.say("Point at a word to see where it looks")
    film.hold(500)
    film.move(app.cell(10, 2), 8)
    film.hold(700)
    film.click("!location.search.includes('pinned')")  # the page opens with it pinned
    film.say("Each head looks elsewhere")
    film.hold(500)
    film.move(app.place(app.mosaic, 2, 2, 4, 3))
    film.click("location.search.includes('head=Head+8')")
    film.hold(900)


def mask(film: Film) -> None:
    page = film.open("masks?mask-b=full", 1180, top=195)
    box = Masks(page, film.address).words("B")
    place, rule = place_of(box), "causal & q - k < 4"
    film.put((place["x"] + 90, place["y"] + 120))
    film.say("Write another mask, and see what changes")
    film.hold(300)
    film.move((place["x"] + 100, place["y"] + 34), 4)
    film.click("document.activeElement.matches('input')")
    box.fill("")
    for end in range(3, len(rule) + 1, 3):
        page.keyboard.insert_text(rule[end - 3 : end])
        film.hold(STEP)
    page.keyboard.press("Enter")
    film.wait("location.search.includes('mask-b=causal')")
    film.hold(1400)


def why(film: Film) -> None:
    page = film.open(
        "why?term=mlp.28.13", 1150, height=1700, hidden=".attnviz-why-examples, .attnviz-why-step, .stPopover"
    )
    app = AppPage(page, film.address)
    grid = app.chart("why-grid")
    film.put(app.cell(7, 16, grid))
    film.say("Why does the model say “Mary”?")
    film.hold(800)
    film.move(app.cell(3, 24, grid), 5)
    film.click("location.search.includes('term=23.3.13')")
    film.hold(300)
    film.say("This head looks at “John”, and makes it less likely", 936)
    film.hold(1500)


def write(film: Film) -> None:
    hidden = ".write-alternatives, .write-tools, .write-word, .st-key-heatmap .xtick"
    page = film.open("write?length=1&pinned=none", 1240, hidden=hidden)
    film.put((SIDEBAR + 600, 262))
    film.say("See what it looks at while it writes")
    film.hold(400)
    first = page.locator(".attnviz-write").evaluate("element => Number(element.dataset.tokens)")
    for more in range(1, 9):
        page.evaluate(OPEN_IN_PLACE, f"{film.address}/write?length={1 + more}&pinned=none")
        film.wait(f"document.querySelector('.attnviz-write[data-ready=true]').dataset.tokens === '{first + more}'")
        film.hold(120)
    place = place_of(page.locator(".write-token").nth(-2))
    film.move((place["x"] + place["width"] / 2, place["y"] + 20), 4)
    film.click("!location.search.includes('pinned=none')")
    film.hold(1200)


SCENES: tuple[Callable[[Film], None], ...] = (explore, mask, why, write)


def record(browser: Browser, address: str, theme: str) -> list[Frame]:
    """Returns the frames of all scenes in a theme, the last of which fades into the first."""
    film = Film(browser, address, theme)
    for scene in SCENES:
        scene(film)
    film.page.close()
    return film.frames + fade(film.frames[-1][0], film.frames[0][0])


def fade(before: Image.Image, after: Image.Image) -> list[Frame]:
    return [(Image.blend(before, after, part), STEP) for part in (1 / 3, 2 / 3)]


def as_film(frames: list[Frame]) -> dict[str, Any]:
    """Returns the options with which the first of some frames is saved as a film of them all, which begins again."""
    (_first, *others), durations = zip(*frames, strict=True)
    motion = {"save_all": True, "append_images": others, "duration": durations, "loop": 0}
    return motion | {"quality": QUALITY, "method": 4, "minimize_size": True}
