"""Takes the pictures of the documentation from the running app, in Chromium: `make pictures`.

`python -m docs.tools.pictures masks lookup` takes those of these names alone, and `--into FOLDER` writes them
elsewhere.
"""

import tempfile
from argparse import ArgumentParser
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import Browser, Playwright, expect, sync_playwright

from attnviz import show
from attnviz.translator import load
from docs.tools.film import FILMS, as_film, record
from docs.tools.still import still, wait_until_drawn
from tests.support.browser import ARGUMENTS, CHROMIUM, serving
from tests.support.classroom import ClassServer, Participant, Phone, Teacher, contexts

FOLDER = Path(__file__).parents[1] / "pictures"
SCALE, QUALITY = 2, 72


@dataclass(frozen=True)
class Picture:
    """A state of the app, by its link."""

    name: str
    page: str
    state: tuple[tuple[str, object], ...]
    height: int  # of the window, which is 1280 wide
    click: str  # the text of a button
    element: str  # of the page, as a CSS selector; empty for all that is in the window


def picture(name: str, page: str, height: int = 800, click: str = "", element: str = "", **state: object) -> Picture:
    """Returns a picture of a page with these parameters in its link; `_` stands for `-`."""
    return Picture(
        name, page, tuple((key.replace("_", "-"), value) for key, value in state.items()), height, click, element
    )


IT = {"pinned": "10 · it"}
WINDOW = {"mask_a": "causal", "mask_b": "sliding_window(4) | sinks(1)", "pinned": "10 · it"}
CAR = {"text": "the small red car is beautiful .", "word": 3}
CAT = "the small black cat does not look at the birds ."
COLUMNS = ".stHorizontalBlock:has(.st-key-effects-compared)"
TAB = "[role=tabpanel]:not([inert])"
PICTURES = (
    picture("start", "", 720),
    picture("explore", "explore", 830, **IT),
    picture("explore-layers", "explore", 830, mosaic="All layers", mask="Sliding window", **IT),
    picture("lessons", "lessons"),
    picture("lesson", "masks", 920, lesson="08-causal", step=1, mask_a="full", mask_b="causal", **IT),
    picture("lookup", "lookup", 830, softness="T = 1", query_x=1, query_y=1),
    picture("steps", "steps", 900),
    picture("steps-scale", "steps", 740, part="Why scale", d=512),
    picture("transformer", "transformer", 800, **CAR),
    picture("transformer-layer", "transformer", 800, open="decoder 1", **CAR),
    picture("transformer-forms", "transformer", 1200, tab="How attention forms", step=200),
    picture("why", "why", 830),
    picture("why-circuit", "why", 2200, element=".st-key-why-circuit", tree="true"),
    picture("effects", "effects", 1150, effects_head="layer 23, head 3"),
    picture("effects-compared", "effects", 1600, element=COLUMNS, compared="true", effects_head="layer 24, head 4"),
    picture("scores", "scores", 860, look="Similarities", **IT),
    picture("scores-normalizers", "scores", 1010, look="Normalizers", **IT),
    picture("masks", "masks", 820, **WINDOW),
    picture("masks-cost", "masks", 1800, look="For engineers", part="Cost", tokens="16,384", element=TAB, **WINDOW),
    picture("masks-gallery", "masks", 2400, look="Gallery", element=TAB, **WINDOW),
    picture("write", "write", 820),
    picture("heads", "heads", 800, inspect="Repeated tokens", kind="induction head"),
)
VIEWER = "notebook"  # the viewer of notebooks, without the app
CLASS, PHONE = "class", "class-phone"  # a vote, on the teacher's screen and on a phone
FILM = "film"  # in each theme
NAMES = [*(one.name for one in PICTURES), VIEWER, CLASS, PHONE, FILM]


def take(browser: Browser, address: str, one: Picture) -> Image.Image:
    """Returns the picture of a state once nothing in it moves."""
    page = browser.new_page(
        viewport={"width": 1280, "height": one.height}, device_scale_factor=SCALE, color_scheme="light"
    )
    page.set_default_timeout(120_000)
    page.goto(f"{address}/{one.page}?{urlencode(one.state)}" if one.state else f"{address}/{one.page}")
    wait_until_drawn(page)
    if one.click:
        page.get_by_text(one.click, exact=True).first.click()
        wait_until_drawn(page)
    shot = still(page, one.element)
    page.close()
    return shot


def take_viewer(browser: Browser, folder: Path) -> Image.Image:
    """Returns the picture of the viewer of a notebook, as a page of its own."""
    path = folder / "viewer.html"
    show(load().translate(CAT).layers(), layer=5, head=3, query=6).to_html(path)
    page = browser.new_page(viewport={"width": 1100, "height": 700}, device_scale_factor=SCALE, color_scheme="light")
    page.goto(path.as_uri())
    wait_until_drawn(page)
    return still(page, "body > *")


def take_class(playwright: Playwright, folder: Path) -> dict[str, Image.Image]:
    """Returns pictures of the second vote of a class."""
    server = ClassServer(folder).start()
    with contexts(playwright, 1) as (laptop, (pocket,)):
        teacher = Teacher(laptop.new_page(), server.address)
        teacher.open(f"explore?{urlencode(IT | {'present': 1})}")
        code = teacher.start_class()
        phone = Phone(pocket.new_page(), server.address).join(code)
        others = [Participant(server.address, code) for _ in range(17)]
        teacher.ask("Where does “it” look most?")
        for number, other in enumerate(others):
            other.vote((2, 8, 13)[number % 3])
        phone.vote("street")
        teacher.expect_answers(18, 18)
        on_phone = still(phone.page, "")
        teacher.press("Show what the room thinks")
        expect(teacher.poll.locator(".attnviz-chart[data-ready=true]")).to_have_count(1)
        on_screen = still(teacher.page, "")
    server.stop()
    return {CLASS: on_screen, PHONE: on_phone}


def write(image: Image.Image, folder: Path, name: str, **options: Any) -> None:
    path = folder / f"{name}.webp"
    image.save(path, **{"quality": QUALITY, "method": 6} | options)
    print(f"{path}: {path.stat().st_size / 1000:.0f} KB", flush=True)


def main() -> None:
    parser = ArgumentParser("python -m docs.tools.pictures", description="Takes the pictures of the documentation.")
    parser.add_argument("names", nargs="*", default=NAMES, help=f"of {', '.join(NAMES)}; all if none is given")
    parser.add_argument("--into", type=Path, default=FOLDER, help="the folder that they are written to")
    parser.add_argument("--app", help="the address of the app; one is started if none is given")
    chosen = parser.parse_args()
    names, into = chosen.names, chosen.into
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        with nullcontext(chosen.app) if chosen.app else serving(Path(folder) / "log") as address:
            for one in (one for one in PICTURES if one.name in names):
                write(take(browser, address, one), into, one.name)
            for theme, name in FILMS.items() if FILM in names else ():
                frames = record(browser, address, theme)
                write(frames[0][0], into, name, **as_film(frames))
        if VIEWER in names:
            write(take_viewer(browser, Path(folder)), into, VIEWER)
        if {CLASS, PHONE} & {*names}:
            for name, image in take_class(tools, Path(folder)).items():
                write(image, into, name)
        browser.close()


if __name__ == "__main__":
    main()
