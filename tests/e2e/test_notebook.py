"""The viewer in real notebooks, and in pages without Python and without a network."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Locator, Page, expect

import attnviz
from attnviz.attribution import Attribution, LogitDifference, WriterShare
from attnviz.attribution.sum_term import SumTerm
from attnviz.base.formatting import number
from attnviz.figures.shares import signed
from attnviz.models import TRANSLATOR
from attnviz.notebook.page_viewer import PageViewer
from tests.support.browser import ROOT, Browser, place_of, running
from tests.support.ports import free_port

TOKENS = ["the", "cat", "sat", "<b>down</b>"]
WEIGHTS = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0)).softmax(-1)
CREATE = f"""import attnviz, torch
weights = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0)).softmax(-1)
viewer = attnviz.show(weights, {TOKENS!r})
viewer"""
WRITE = """import attnviz, time, torch, transformers
from threading import Event
torch.manual_seed(0)
config = transformers.LlamaConfig(
    vocab_size=50, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, eos_token_id=None)
model, go_on = transformers.LlamaForCausalLM(config), Event()
def steps():
    for step in attnviz.writing(model, None, [7, 8, 9], 12):
        if step.position == 4:
            go_on.wait()
        yield step
viewer = attnviz.show(steps())
viewer"""
SAT = ["the", "cat", "sat", "<b>down</b>"]
MODEL = """import attnviz, torch, transformers
torch.manual_seed(0)
config = transformers.LlamaConfig(
    vocab_size=50, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2)
model, ids = transformers.LlamaForCausalLM(config).eval(), torch.tensor([[7, 8, 9, 5]])
"""
ASK = f"{MODEL}viewer = attnviz.why(model, ids, tokens={SAT!r})\nviewer"
KERNEL_IS_IDLE = """async path => {
    const sessions = await (await fetch("/api/sessions")).json();
    return sessions.some(one => one.path === path && one.kernel.execution_state === "idle");
}"""


@pytest.fixture
def offline(browser: Browser) -> Iterator[Page]:
    """A page whose network is cut."""
    page = browser.new_page()
    page.route(re.compile("^https?:"), lambda route: route.abort())
    yield page
    page.close()


def head_map(root: Page | Locator) -> Locator:
    """The chart of the chosen head, once it is painted."""
    chart = root.locator('[data-name="heatmap"] .attnviz-chart[data-ready="true"]').first
    expect(chart).to_be_visible()
    return chart


def sentence(weights: torch.Tensor, query: int, key: int) -> str:
    return f"{TOKENS[query]} gives {number(float(weights[query, key]))} of its attention to {TOKENS[key]}."


def expect_row(root: Page | Locator, weights: torch.Tensor, query: int) -> None:
    """The strongest key of a pinned query, in the sentence above the map."""
    strongest = int(weights[query].argmax())
    expect(head_map(root).locator(".attnviz-sentence")).to_have_text(sentence(weights, query, strongest))


def test_a_page_is_alive_without_a_network(offline: Page, tmp_path: Path) -> None:
    attnviz.show(WEIGHTS, TOKENS, query=1).to_html(tmp_path / "page.html")
    offline.goto((tmp_path / "page.html").as_uri())
    expect_row(offline, WEIGHTS[0, 0], 1)
    offline.get_by_role("combobox", name="Layer").select_option("layer 1")
    expect_row(offline, WEIGHTS[1, 0], 1)
    offline.get_by_label("Pinned query").select_option("2 · sat")
    expect_row(offline, WEIGHTS[1, 0], 2)
    heads = offline.locator('[data-name="heads"] .attnviz-chart[data-ready="true"] .attnviz-stage')
    heads.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "Enter"):  # the first one goes to the first head
        heads.press(key)
    expect(offline.get_by_role("combobox", name="Head")).to_have_value("Head 2")
    expect(offline.get_by_role("combobox", name="Layer")).to_have_value("layer 0")
    expect_row(offline, WEIGHTS[0, 2], 2)
    stage = head_map(offline).locator(".attnviz-stage")
    stage.focus()
    stage.press("ArrowRight")
    stage.press("ArrowRight")
    expect(head_map(offline).locator(".attnviz-sentence")).to_have_text(sentence(WEIGHTS[0, 2], 2, 1))
    stage.press("ArrowDown")
    stage.press("Enter")
    expect(offline.get_by_label("Pinned query")).to_have_value("3 · <b>down</b>")
    stage.press("Enter")
    expect(offline.get_by_label("Pinned query")).to_have_value("none")
    with offline.expect_download() as download:
        head_map(offline).locator(".attnviz-files > summary").click()
        head_map(offline).get_by_role("button", name="SVG").click()
    assert "<b>down</b>" not in Path(download.value.path()).read_text(encoding="utf-8")


def test_two_sources_are_compared_without_a_network(offline: Page, tmp_path: Path) -> None:
    attnviz.show(WEIGHTS, WEIGHTS.flip(0), tokens=TOKENS, names=("one", "two")).to_html(tmp_path / "page.html")
    offline.goto((tmp_path / "page.html").as_uri())
    charts = offline.locator('.attnviz-chart[data-ready="true"]')
    expect(charts).to_have_count(4)  # with the mosaic
    stage = charts.nth(1).locator(".attnviz-stage")
    stage.focus()
    stage.press("ArrowRight")
    expect(charts.nth(2).locator(".attnviz-sentence")).to_have_text(sentence(WEIGHTS[1, 0], 0, 0))
    before, after = (number(float(WEIGHTS[layer, 0, 0, 0])) for layer in (0, 1))
    expect(charts.nth(3).locator(".attnviz-sentence")).to_have_text(
        f"the gives {after} of its attention to the, {before} before."
    )


def asked() -> tuple[PageViewer, Attribution]:
    """The viewer of the same sum, and the sum without a viewer."""
    names: dict[str, Any] = {}
    exec(MODEL, names)
    viewer = attnviz.why(names["model"], names["ids"], tokens=SAT)
    first, second = names["model"](names["ids"]).logits[0, -1].topk(2).indices.tolist()
    return viewer, attnviz.attribute(names["model"], names["ids"], LogitDifference(first, second))


def largest_head(found: Attribution) -> WriterShare:
    return max((term for term in found.terms if term.head is not None), key=lambda term: abs(term.share))


def opened(found: Attribution) -> tuple[str, str]:
    """What the largest head carries from where it takes most, as a step of a trail, and the number."""
    term = largest_head(found)
    place = term.layer or 0, term.head or 0, term.position
    source = int(found.sources(*place).abs().argmax())
    step = "value." + ".".join(map(str, (*place, source)))
    return step, signed(found.opened(*place, source).total)


def test_a_sum_is_read_without_a_network(offline: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.notebook.page_viewer.MOST_STATES", 60)
    viewer, found = asked()
    viewer.to_html(tmp_path / "why.html")
    offline.goto((tmp_path / "why.html").as_uri())
    root = offline.locator(".attnviz-page")
    questions = root.locator(".attnviz-trail li")
    expect(root.locator(".attnviz-in-words")).to_contain_text("after “<b>down</b>”?")
    expect(root.locator('.attnviz-chart[data-ready="true"]:visible')).to_have_count(4)
    rows = root.locator("table").first.locator("tbody tr")
    expect(rows).to_have_count(10)
    terms = sorted(found.largest(10), key=lambda term: term.share * found.total < 0)  # first for, then against
    for row, term in zip(rows.all(), terms, strict=True):
        expect(row.locator("td").nth(1)).to_have_text(signed(term.share))
    last = terms[-1]
    rows.last.get_by_role("link").click()
    expect(root).to_contain_text(f"adds {signed(last.share)}.")
    _step, number = opened(found)
    root.get_by_role("link", name="Follow the largest").click()
    expect(questions).to_have_count(2)
    expect(questions.first).to_contain_text(signed(found.total))
    expect(questions.last).to_contain_text(number)
    questions.first.get_by_role("link").click()
    expect(questions).to_have_count(0)
    stage = root.locator('[data-name="why-grid"] .attnviz-chart[data-ready="true"] .attnviz-stage')
    stage.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight", "Enter"):  # the first one goes to the first cell
        stage.press(key)
    expect(root).to_contain_text("Layer 0, head 1 at")


def test_a_row_is_pinned_in_a_file_and_has_the_numbers_of_the_sentence(
    offline: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnviz.notebook.page_viewer.MOST_STATES", 60)
    attnviz.view("/scores?mask=Causal").save(tmp_path / "scores.html")
    offline.goto((tmp_path / "scores.html").as_uri())
    root = offline.locator(".attnviz-page")
    maps = root.locator('.attnviz-chart[data-ready="true"]:visible')
    expect(maps).to_have_count(3)
    expect(root).to_contain_text("it gives animal 0.70 (Scaled dot) and 0.13 (Cosine).")
    expect(maps.nth(1).locator(".attnviz-sentence")).to_have_text("it gives 0.13 of its attention to animal.")
    stage = maps.first.locator(".attnviz-stage")
    stage.focus()
    for key in ("ArrowRight", "ArrowDown", "Enter"):  # the first one goes to the first cell
        stage.press(key)
    expect(root.locator(".attnviz-summary")).to_have_text(re.compile("^(The|was) gives"))


def test_a_menu_stays_in_a_file_also_where_no_other_state_is_held(
    offline: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnviz.notebook.page_viewer.MOST_STATES", 4)  # without another layer or head
    attnviz.view("/explore?source=Toy&text=a+b+c&pinned=1+·+b").save(tmp_path / "explore.html")
    offline.goto((tmp_path / "explore.html").as_uri())
    layer, head, pinned = (offline.get_by_role("combobox", name=name) for name in ("Layer", "Head", "Pinned query"))
    expect(head).to_have_value("Head 0")
    expect(head).to_be_disabled()
    expect(layer.locator("option")).to_have_count(1)
    expect(pinned.locator("option:checked")).to_have_text("1 · b")
    pinned.select_option("2 · c")
    expect(head_map(offline).locator(".attnviz-sentence")).to_contain_text("c gives")
    expect(head).to_have_value("Head 0")
    heads = offline.locator('[data-name="heads"] .attnviz-chart[data-ready="true"]')
    expect(heads).to_be_visible()
    expect(heads.locator(".attnviz-sentence")).to_have_text("")  # not that a click opens a head


def test_a_mosaic_in_a_file_says_what_a_click_does_where_it_does(
    offline: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnviz.notebook.page_viewer.MOST_STATES", 20)
    attnviz.view("/explore?source=Toy&text=a+b").save(tmp_path / "explore.html")
    offline.goto((tmp_path / "explore.html").as_uri())
    heads = offline.locator('[data-name="heads"] .attnviz-chart[data-ready="true"]')
    expect(heads.locator(".attnviz-sentence")).to_have_text("Click a head to open it.")
    expect(offline.get_by_role("combobox", name="Head")).to_be_enabled()


def test_a_click_on_a_patch_opens_a_state_in_a_file(
    offline: Page, tmp_path: Path, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnviz.notebook.page_viewer.FILE_STATES", 17)
    attnviz.view(f"/effects?why-model={saved / 'vit'}&region=1").save(tmp_path / "effects.html")
    offline.goto((tmp_path / "effects.html").as_uri())
    root = offline.locator(".attnviz-page")
    stage = root.locator('[data-name="hidden-picture"] .attnviz-chart[data-ready="true"] .attnviz-stage')
    expect(root).to_contain_text("Click a patch of the second image")
    expect(root).not_to_contain_text("Drag over patches")
    before = root.inner_text()
    stage.focus()
    stage.press("ArrowRight")
    stage.press("Enter")
    expect(root).to_contain_text("“0·0” gives")
    assert "“0·0” gives" not in before


def test_a_forward_pass_opens_in_a_file(offline: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.notebook.page_viewer.MOST_STATES", 40)
    attnviz.view("/transformer?open=decoder+1").save(tmp_path / "transformer.html")
    offline.goto((tmp_path / "transformer.html").as_uri())
    path = offline.locator(".attnviz-path")
    expect(path).to_have_attribute("data-ready", "true")
    expect(path).to_have_attribute("data-depth", "layer")
    path.get_by_role("button", name="Whole model").click()
    expect(path).to_have_attribute("data-depth", "model")
    expect(path.locator(".path-drawn th")).to_have_text("voiture")
    path.locator("[data-open='decoder 1']").first.click(position={"x": 12, "y": 8})
    expect(path).to_have_attribute("data-open", "decoder 1")
    expect(path.locator("[data-open='decoder 1 cross weights']")).to_be_visible()


def test_a_written_text_is_played_in_a_file(offline: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnviz.notebook.page_viewer.FILE_STATES", 2)
    link = f"/write?writer={TRANSLATOR}&prompt=the+cat+sleeps+.&layer=decoder+1+cross"
    attnviz.view(link).save(tmp_path / "write.html")
    offline.goto((tmp_path / "write.html").as_uri())
    text = offline.locator(".attnviz-write")
    expect(text).to_have_attribute("data-ready", "true")
    whole = offline.locator(".write-text").inner_text()
    offline.get_by_role("button", name="Start again").click()
    expect(text).to_have_attribute("data-ready", "false")
    step = offline.get_by_role("button", name="Next word")
    step.click()
    expect(offline.locator(".write-written")).to_have_count(1)
    expect(step).to_be_focused()
    summary = offline.locator(".attnviz-summary")
    first = summary.inner_text()
    step.press("Enter")
    expect(offline.locator(".write-written")).to_have_count(2)
    expect(summary).not_to_have_text(first)
    offline.get_by_role("button", name="Play", exact=True).click()
    expect(text).to_have_attribute("data-ready", "true")
    expect(offline.get_by_role("button", name="Play", exact=True)).to_be_visible()
    expect(offline.locator(".write-text")).to_have_text(whole)


def test_an_executed_notebook_is_exported_alive(offline: Page, tmp_path: Path) -> None:
    """As `jupyter nbconvert --execute --to html` does, which also stores the state of widgets."""
    notebook = new_notebook(cells=[new_code_cell(CREATE), new_code_cell("attnviz.show(weights, layer=1)")])
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    page, _ = HTMLExporter().from_notebook_node(notebook)
    assert page.count("data-attnviz-library=") == 1
    (tmp_path / "notebook.html").write_text(page, encoding="utf-8")
    offline.goto((tmp_path / "notebook.html").as_uri(), wait_until="domcontentloaded")
    first, second = (offline.locator("[data-attnviz]").nth(i) for i in range(2))
    first.get_by_label("Pinned query").select_option("2 · sat")
    expect_row(first, WEIGHTS[0, 0], 2)
    second.scroll_into_view_if_needed()
    head_map(second)
    expect(second.get_by_label("Layer")).to_have_value("layer 1")


def test_an_output_that_is_inserted_as_html_starts(offline: Page) -> None:
    """As VS Code and JupyterLab insert it, under a policy that lets no address but the page's own objects in."""
    output = attnviz.show(WEIGHTS, TOKENS, query=0)._output()
    policy = "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data: blob:"
    offline.set_content(
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<body class="vscode-dark" style="background: #1e1e1e"><main></main>'
    )
    offline.evaluate(
        """html => {
            const main = document.querySelector("main");
            main.innerHTML = html;
            for (const inert of main.querySelectorAll("script")) {
                const script = document.createElement("script");
                for (const { name, value } of inert.attributes) script.setAttribute(name, value);
                script.textContent = inert.textContent;
                inert.replaceWith(script);
            }
        }""",
        output,
    )
    expect_row(offline, WEIGHTS[0, 0], 0)
    expect(offline.locator(".attnviz-viewer")).to_have_attribute("data-theme", "dark")


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder, port = tmp_path_factory.mktemp("jupyter"), free_port()
    settings = folder / "lab" / "user-settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text(
        json.dumps({"fetchNews": "false", "checkForUpdates": False})
    )
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
    command += ["--IdentityProvider.token=", f"--ServerApp.root_dir={folder}"]
    own = {"HOME": str(folder), "JUPYTER_CONFIG_DIR": str(folder)}
    with running(command, folder / "log", f"http://127.0.0.1:{port}/api", folder, **own):
        yield f"http://127.0.0.1:{port}", folder


@contextmanager
def notebook(jupyter: tuple[str, Path], browser: Browser, path: str, cells: list[str]) -> Iterator[Page]:
    """A notebook in which all cells are run."""
    address, folder = jupyter
    name = f"{path.split('/')[0]}-{len(cells)}.ipynb"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = new_notebook(cells=[new_code_cell(cell) for cell in cells], metadata={"kernelspec": kernel})
    nbformat.write(made, folder / name)
    page = browser.new_page(height=1000)
    try:
        page.goto(f"{address}/{path}/{name}")
        expect(page.get_by_text("Python 3 (ipykernel)").first).to_be_visible()
        page.wait_for_function(KERNEL_IS_IDLE, arg=name)
        expect(page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]").first).to_be_visible()
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_text("Run All Cells", exact=True).click()
        yield page
    finally:
        page.close()


def run_last_cell(page: Page) -> None:
    page.locator(".jp-Notebook .jp-CodeCell").last.locator(".jp-InputArea").click()
    page.keyboard.press("Shift+Enter")


@pytest.mark.parametrize("path", ["lab/tree", "notebooks"])
def test_a_widget_shares_what_is_chosen_with_python(jupyter: tuple[str, Path], browser: Browser, path: str) -> None:
    """In JupyterLab and in Notebook 7."""
    # A widget answers between two cells: the last cell is run by hand.
    cells = [CREATE, "viewer.head, viewer.query = 1, 2"]
    cells += ['print(f"layer {viewer.layer}, head {viewer.head}, query {viewer.query}")']
    with notebook(jupyter, browser, path, cells) as page:
        viewer = page.locator(".attnviz-viewer")
        expect_row(viewer, WEIGHTS[0, 1], 2)
        expect(viewer).to_have_count(1)  # the picture for when no kernel runs is gone
        viewer.get_by_label("Layer").select_option("layer 1")
        expect_row(viewer, WEIGHTS[1, 1], 2)
        viewer.get_by_label("Pinned query").select_option("1 · cat")
        expect_row(viewer, WEIGHTS[1, 1], 1)
        run_last_cell(page)
        expect(page.get_by_text("layer 1, head 1, query 1", exact=True)).to_be_visible()


def test_a_sum_is_opened_by_python(jupyter: tuple[str, Path], browser: Browser) -> None:
    found = asked()[1]
    step, number = opened(found)
    cells = [ASK, f"print('opened is', viewer.link)\nviewer.link = 'trail={step}'"]
    with notebook(jupyter, browser, "notebooks", cells) as page:
        viewer = page.locator(".attnviz-page")
        questions = viewer.locator(".attnviz-trail li")
        expect(questions).to_have_count(2)
        expect(questions.last).to_contain_text(number)
        expect(viewer).to_have_count(1)  # the HTML for when no kernel runs is gone
        questions.first.get_by_role("link").click()
        expect(questions).to_have_count(0)
        viewer.get_by_role("link", name="its sum").first.click()
        expect(questions).to_have_count(2)
        expect(questions.last).to_contain_text(number)
        questions.first.get_by_role("link").click()
        expect(questions).to_have_count(0)
        viewer.get_by_role("link", name="0.1", exact=True).first.click()
        expect(viewer).to_contain_text("Layer 0, head 1 at")
        run_last_cell(page)
        term = next(term for term in found.largest(10) if (term.layer, term.head) == (0, 1))
        expect(page.get_by_text(f"opened is term={SumTerm.from_share(term)}", exact=True)).to_be_visible()
        expect(questions).to_have_count(2)


def test_a_page_of_the_app_is_whole_in_a_notebook(jupyter: tuple[str, Path], browser: Browser) -> None:
    link = f"/heads?why-model={TRANSLATOR}&kind=Itself"
    cells = [f"import attnviz\npage = attnviz.view({link!r})\npage", "print('opened is', page.link)"]
    with notebook(jupyter, browser, "notebooks", cells) as page:
        viewer = page.locator(".attnviz-page")
        answer = viewer.locator(".attnviz-summary")
        expect(answer).to_contain_text("has the largest number for “Itself”")
        expect(viewer).to_have_count(1)  # the HTML for when no kernel runs is gone
        viewer.get_by_label("What heads do").select_option("Entropy")
        expect(answer).to_contain_text("has the largest number for “Entropy, bits”")
        expect(viewer.get_by_label("What heads do")).to_have_value("Entropy")
        viewer.get_by_label("Text").fill("the cat sleeps .")
        viewer.get_by_label("Text").press("Enter")
        expect(viewer).to_contain_text("reads “the cat sleeps .”")
        viewer.get_by_label("Compared with").select_option("Itself")
        expect(viewer.get_by_text("Each point is a head. Click to open it.")).to_be_visible()
        run_last_cell(page)
        expect(page.get_by_text(re.compile("opened is .*kind=Entropy"))).to_be_visible()


def test_python_answers_a_click_on_a_map(jupyter: tuple[str, Path], browser: Browser) -> None:
    cells = ["import attnviz\npage = attnviz.view('/explore?source=Toy&text=a+b+c+d&pinned=0+·+a')\npage"]
    with notebook(jupyter, browser, "notebooks", [*cells, "print('opened is', page.link)"]) as page:
        viewer = page.locator(".attnviz-page")
        stage = viewer.locator('[data-name="heatmap"] .attnviz-chart[data-ready="true"] .attnviz-stage')
        expect(stage).to_be_visible()
        expect(page.locator("[data-attnviz]")).to_have_count(0)  # the HTML for when no kernel runs is gone
        stage.focus()
        for key in ("ArrowRight", *["ArrowDown"] * 3, "Enter"):  # the first one goes to the first cell
            stage.press(key)
        expect(viewer.get_by_label("Pinned query")).to_have_value("3 · d")
        expect(viewer.locator(".attnviz-summary")).to_have_text(re.compile("^d gives"))
        expect(stage).to_be_focused()
        viewer.get_by_label("Head", exact=True).select_option("Head 1")
        expect(viewer.locator(".attnviz-in-words")).to_have_text("layer 0, head 1")
        run_last_cell(page)
        expect(page.get_by_text(re.compile("opened is .*pinned=3"))).to_be_visible()


def test_a_widget_follows_a_model_that_writes(jupyter: tuple[str, Path], browser: Browser) -> None:
    again = "if 'again' in globals(): go_on.set()\nagain = True"  # what is run by hand, and what runs before it
    with notebook(jupyter, browser, "notebooks", [WRITE, again]) as page:
        viewer = page.locator(".attnviz-viewer")
        chart = '[data-name="heatmap"] .attnviz-chart[data-ready="true"][data-rows="{}"]'
        expect(viewer.locator(chart.format(6))).to_be_visible()  # the prompt, and the first three tokens
        expect(viewer.get_by_label("Pinned query")).to_have_value(re.compile("^5 · "))
        expect(viewer.get_by_role("status")).not_to_have_text("")
        viewer.get_by_label("Layer").select_option("layer 1")  # the kernel answers meanwhile
        expect(viewer.locator(chart.format(6))).to_be_visible()
        run_last_cell(page)
        expect(viewer.locator(chart.format(14))).to_be_visible()
        expect(viewer.get_by_label("Pinned query")).to_have_value(re.compile("^13 · "))
        expect(viewer.get_by_label("Layer")).to_have_value("layer 1")
        expect(viewer.locator(".attnviz-viewer-message")).to_be_hidden()


def test_a_long_map_is_zoomed_by_python_in_marimo(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "notebook.py").write_text(
        "import marimo\n\napp = marimo.App()\n\n\n@app.cell\ndef _():\n    import attnviz, torch\n"
        "    weights = torch.rand(1100, 1100, generator=torch.Generator().manual_seed(0))\n"
        "    attnviz.show(weights)\n    return\n\n\nif __name__ == '__main__':\n    app.run()\n"
    )
    port = free_port()
    command = [sys.executable, "-m", "marimo", "run", "notebook.py", "--headless", "--no-token", f"--port={port}"]
    with running(command, tmp_path / "log", f"http://127.0.0.1:{port}/health", tmp_path, HOME=str(tmp_path)):
        page = browser.new_page(height=1000)
        try:
            page.goto(f"http://127.0.0.1:{port}")
            chart = head_map(page)
            assert (chart.get_attribute("data-rows"), chart.get_attribute("data-columns")) == ("256", "256")
            box = place_of(chart.locator(".nsewdrag"))
            x, y = box["x"] + 20, box["y"] + 20
            page.mouse.move(x, y)
            page.mouse.down()
            page.mouse.move(x + 60, y + 30, steps=5)
            page.mouse.up()
            expect(page.locator('.attnviz-chart[data-ready="true"]:not([data-rows="256"])').first).to_be_visible()
            chart = head_map(page)
            assert int(chart.get_attribute("data-rows") or 0) < 256
            weights = torch.rand(1100, 1100, generator=torch.Generator().manual_seed(0))
            stage = chart.locator(".attnviz-stage")
            stage.focus()
            stage.press("ArrowRight")
            text = chart.locator(".attnviz-sentence").inner_text()
            found = re.fullmatch(r".*\((\d+)\) gives ([\d.]+) of its attention to .*\((\d+)\)\.", text)
            query, weight, key = found.groups() if found else pytest.fail(text)
            assert weight == number(float(weights[int(query), int(key)]))
        finally:
            page.close()
