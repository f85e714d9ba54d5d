"""How the weights over a picture follow the pointer: in frames, without a run of the script."""

import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import torch
import transformers
from playwright.sync_api import BrowserContext

from attnviz.models import DINOV2
from attnviz.models.dinov2 import dinov2
from tests.bench.measures import in_front, new_page, note, row, sizes, table

SIZE: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 32, "num_attention_heads": 32}
DRAWN = ".st-key-picture .attnviz-chart[data-ready=true]"
FOLLOWED = """async patches => {
    const chart = document.querySelector('.st-key-picture .attnviz-chart');
    const [stage, overlay] = ['stage', 'overlay'].map(name => chart.querySelector(`.attnviz-${name}`));
    const area = chart.querySelector('.nsewdrag').getBoundingClientRect();
    let runs = 0;
    const app = document.querySelector('[data-testid=stApp]');
    new MutationObserver(() => runs++).observe(app, { attributeFilter: ['data-test-script-state'] });
    const all = [];
    for (let i = 0; i < 40; i++) {
        const [x, y] = [(i * 7) % patches, (i * 5) % patches].map(place => (place + 0.5) / patches);
        const [clientX, clientY] = [area.x + x * area.width, area.y + y * area.height];
        const [before, start] = [overlay.firstChild, performance.now()];
        stage.dispatchEvent(new PointerEvent('pointermove', { clientX, clientY, bubbles: true }));
        let frames = 0;
        for (; overlay.firstChild === before && frames < 600; frames++) await new Promise(requestAnimationFrame);
        all.push([frames, performance.now() - start]);
    }
    const [frames, ms] = [0, 1].map(side => all.map(one => one[side]).sort((a, b) => a - b));
    return [frames[20], frames[39], ms[20], runs];
}"""


def pictures(browser: BrowserContext, ours: str) -> None:
    """The pointer over patches, until other weights lie over the picture: a median of 40 patches, and the slowest."""
    table("Pointer → weights over a picture", ("model", "patches", "heads", "frames", "most frames", "ms", "runs"))
    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        config = transformers.ViTConfig(image_size=96, patch_size=4, **SIZE)
        transformers.ViTModel(config).save_pretrained(Path(folder) / "vit")
        models = [("32 layers", str(Path(folder) / "vit"), 24, 1024), ("DINOv2-small", DINOV2, 16, 72)]
        for name, model, side, heads in sizes(models):
            if model == DINOV2 and not dinov2.is_installed():
                note("DINOv2-small is left out: it is not installed.")
                continue
            page = new_page(browser)
            page.goto(f"{ours}/explore?{urlencode({'source': 'Model', 'model': model})}")
            page.wait_for_selector(DRAWN, state="attached")
            with in_front(page):
                frames, most, ms, runs = page.evaluate(FOLLOWED, side)
            row(name, side * side, heads, frames, most, ms, runs)
            page.close()
