"""The Models page without a browser: the overview, and texts that are long.

What is drawn is compared with what the models themselves say of their attention, run eagerly by transformers.
"""

import re
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf

from attnviz.analysis import work
from attnviz.analysis.head_metrics import HEAD_METRICS
from attnviz.figures.themes import LAST_CODE
from attnviz.formatting import number, visible
from attnviz.layer import LayerId
from attnviz.models import TRANSLATOR, model_cache
from attnviz.models.hub import MINILM, SMOLLM2
from attnviz.models.minilm import minilm
from attnviz.server import jobs
from attnviz.state.session_fields import text_note
from attnviz.text import EXAMPLE
from attnviz.ui.models import grouped_query, layer_table, overview
from attnviz.views import long_maps
from tests.support.app import contents, linked, ok, open_page
from tests.support.tiny_models import TEXT

LONGER = f"{TEXT} {TEXT} {TEXT}"


pytestmark = pytest.mark.usefixtures("isolated")
page = partial(open_page, "models")


def own(folder: Path, text: str = TEXT, **more) -> tuple:
    """All attentions of a model, by its own eager implementation."""
    auto = hf.AutoModelForSeq2SeqLM if folder.name in ("t5", "bart") else hf.AutoModel
    model = auto.from_pretrained(folder, attn_implementation="eager").eval()
    batch = {} if folder.name == "vit" else hf.AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        return model(**batch, **more, output_attentions=True)


def same(chart, expected: torch.Tensor, within: float = 1e-5) -> None:
    """The drawn weights are those of the model; nothing is drawn where it may not look."""
    weights = chart.figure.data[0].z
    assert weights.shape == tuple(expected.shape)
    np.testing.assert_allclose(np.nan_to_num(weights), expected, atol=within)


# What is there, and what is drawn of it


def test_it_opens_on_the_model_of_the_wheel(drawn) -> None:
    app = ok(page())
    assert app.selectbox(key="model").options == [MINILM, SMOLLM2, TRANSLATOR]
    assert app.text_area(key="text").value == EXAMPLE
    assert (
        "all-MiniLM-L6-v2 (BertModel): 6 attention layers of 12 heads, 22,713,216 parameters; "
        "the model reads at most 512 tokens" in contents(app)
    )
    assert "it gives 0.68 of its attention to animal." in contents(app)
    assert len(drawn["heads"].spec.names) == 72
    assert drawn["heads"].spec.columns == 12
    rows = re.findall(r"<tr[^>]*><th>(.*?)</th>(.*?)</tr>", next(h.body for h in app.get("html") if "<table" in h.body))
    cells = re.findall("<td>(.*?)</td>", rows[1][1] if rows[0][0] == "Layers" else rows[0][1])
    assert cells == ["12", "16", "Every query sees every key.", "verified"]
    assert "Heads that share keys" not in contents(app)


def test_heads_are_colored_by_a_metric(drawn) -> None:
    app = ok(page(color_by="Previous token"))
    grid = drawn["heads"]
    assert grid.figure.data[0].z.shape == (6, 12)
    assert grid.spec.names[1].startswith("encoder 0, head 1: ")
    menu = app.selectbox(key="color-by")
    assert {metric.name for metric in HEAD_METRICS} <= {*menu.options}
    attentions = own_minilm()
    for layer, head in ((2, 8), (3, 1)):
        weights = attentions[layer][0, head]
        assert grid.figure.data[0].z[layer, head] == pytest.approx(float(weights.diagonal(-1).mean()), abs=1e-5)


def own_minilm():
    kept = minilm()
    with kept.lock, torch.no_grad():
        return kept.model(**kept.encode(EXAMPLE).batch, output_attentions=True).attentions


# The products of one score


def test_the_products_add_up_to_the_models_own_score(drawn) -> None:
    app = ok(page())
    kept = minilm()
    with kept.lock, torch.no_grad():
        out = kept.model(**kept.encode(EXAMPLE).batch, output_hidden_states=True)
        layer = kept.model.encoder.layer[3].attention.self
        query, key, value = (
            part(out.hidden_states[3])[0].unflatten(-1, (12, 32))[:, 1]
            for part in (layer.query, layer.key, layer.value)
        )
    each = query[10] * key[2] / 32**0.5
    np.testing.assert_allclose(drawn["products"].figure.data[0].y, each, atol=1e-5)
    assert f"q · k / √32 = {float(each.sum()):.2f}" in re.sub("<.*?>", "", contents(app))
    assert f"Dimension {int(each.abs().argmax())} counts most" in contents(app)
    for name, vectors in (("queries", query), ("keys", key), ("values", value)):
        np.testing.assert_allclose(drawn[name].figure.data[0].z, vectors, atol=1e-5)
    app = ok(app.selectbox(key="key").select("8 · street").run())
    np.testing.assert_allclose(drawn["products"].figure.data[0].y, query[10] * key[8] / 32**0.5, atol=1e-5)
    assert "becomes a weight of 0.050." in contents(app)
    app = ok(app.selectbox(key="pinned").select("none").run())
    assert "Pin a query, or click a cell of the map above." in contents(app)


def test_a_masked_pair_is_said_and_shared_keys_are_the_right_ones(saved, drawn) -> None:
    layer = model_cache.model(str(saved / "llama")).layers(TEXT)[0]
    tokens = layer.inputs.query_tokens
    app = ok(page(model=saved / "llama", text=TEXT, head="Head 3", pinned=f"1 · {visible(tokens[1])}"))
    last = app.selectbox(key="key").options[-1]
    app = ok(app.selectbox(key="key").select(last).run())
    assert "The mask hides this key." in contents(app)
    np.testing.assert_allclose(drawn["keys"].figure.data[0].z, layer.inputs.key[1])
    shown = next(one.body for one in app.get("html") if "attnviz-groups" in one.body)
    assert re.findall("<li( class='attnviz-chosen')?>(.)", shown) == [
        ("", "0"),
        ("", "1"),
        ("", "2"),
        (" class='attnviz-chosen'", "3"),
    ]


def test_together_there_are_no_queries_and_the_answer_is_not_given_away(drawn) -> None:
    app = ok(page(head="Mean of heads"))
    assert "Choose one head to see its queries, keys and values." in contents(app)
    assert "products" not in drawn
    app = ok(page(predict="true"))
    assert "products" not in drawn
    assert np.isnan(drawn["heatmap"].figure.data[0].z[10]).all()


def test_groups(random_inputs) -> None:
    assert not grouped_query.is_grouped(random_inputs(heads=4))
    assert grouped_query.sharing_sentence(random_inputs(heads=6, kv_heads=2)) == (
        "6 query heads share 2 heads of keys and values, 3 each (grouped-query attention)."
    )
    assert grouped_query.sharing_sentence(random_inputs(heads=6, kv_heads=1)).startswith(
        "All 6 query heads share one head"
    )
    drawn = grouped_query.diagram(random_inputs(heads=6, kv_heads=2), 4)
    boxes = drawn.split("attnviz-shared")[1:]
    assert [re.findall(r">(\d)</li>", box) for box in boxes] == [["0", "1", "2"], ["3", "4", "5"]]
    assert [" attnviz-chosen" in box.split(">")[0] for box in boxes] == [False, True]


# Layers that do not fit into one mosaic, and texts that are long


def test_layers_of_other_shapes_are_said(saved, drawn, monkeypatch) -> None:
    monkeypatch.setattr(overview, "MOST_MOSAICS", 1)
    app = ok(page(model=saved / "t5", text=TEXT, layer="decoder 1"))
    assert "encoder 0–1, decoder 0–1 cross have other numbers of heads or tokens" in contents(app)
    assert len(drawn["heads"].spec.names) == 8


def test_kinds_of_one_stack_are_told_apart(tmp_path, drawn) -> None:
    config = hf.SwinConfig(image_size=32, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4)
    hf.SwinModel(config).save_pretrained(tmp_path)
    text = contents(ok(page(model=tmp_path)))
    assert "Encoder: 2 heads, 256 tokens" in text
    assert "Encoder: 4 heads, 64 tokens" in text


def test_one_head_of_a_layer_that_is_too_long_as_a_whole_is_drawn(saved, drawn, monkeypatch) -> None:
    monkeypatch.setattr("attnviz.state.viewport.MOST_CELLS", 50)
    monkeypatch.setattr("attnviz.views.selected_maps.CELLS", 5)
    monkeypatch.setattr("attnviz.views.selected_maps.THUMBNAIL_CELLS", 18)
    monkeypatch.setattr("attnviz.views.selected_maps.LEAST_THUMBNAIL", 3)
    count = len(own(saved / "gpt2", LONGER).attentions[0][0, 0])
    monkeypatch.setattr("attnviz.analysis.work.MOST_WORK", count**2 - 1)  # all heads of a layer take more
    link = {"model": saved / "gpt2", "text": LONGER, "layer": "layer 1", "head": "Head 1"}
    assert not ok(page(**link)).error
    assert drawn["heatmap"].figure.data[0].z.shape == (5, 5)
    assert len(drawn["heads"].spec.names) == 4  # of one layer
    monkeypatch.setattr("attnviz.analysis.work.MOST_MAP_WORK", 10)
    [error] = page(**link | {"head": "Head 0"}).error
    assert "at most 10 are computed for one map" in error.value


def test_a_long_text_is_drawn_in_fewer_cells(saved, drawn, monkeypatch) -> None:
    monkeypatch.setattr("attnviz.state.viewport.MOST_CELLS", 50)
    monkeypatch.setattr("attnviz.views.selected_maps.CELLS", 5)
    app = ok(page(model=saved / "gpt2", text=LONGER, layer="layer 1", head="Head 1"))
    weights = own(saved / "gpt2", LONGER).attentions[1][0, 1].numpy()
    count = len(weights)
    assert count > 10
    parts = [slice(i * count // 5, (i + 1) * count // 5) for i in range(5)]
    expected = [[weights[rows, keys].max() for keys in parts] for rows in parts]
    np.testing.assert_allclose(np.nan_to_num(drawn["heatmap"].spec.downsampled.maximum), expected, atol=1e-5)
    mass = np.array([[weights[rows, keys].sum() / len(weights[rows]) for keys in parts] for rows in parts])
    np.testing.assert_allclose(mass.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.nan_to_num(drawn["heatmap"].figure.data[0].z), (mass / mass.max()) ** 0.5, atol=1e-5)
    best = f"({count - 1}) gives {number(float(weights[-1].max()))} of its attention to "  # the last query is pinned
    assert best in contents(app)
    assert f"({int(weights[-1].argmax())})." in contents(app).partition(best)[2].splitlines()[0]
    np.testing.assert_allclose(drawn["products"].figure.data[0].y.sum(), weights_score(saved, weights), atol=1e-4)
    app = ok(app.slider[0].set_value((2, 4)).run())
    app = ok(app.slider[1].set_value((0, 3)).run())
    np.testing.assert_allclose(np.nan_to_num(drawn["heatmap"].spec.downsampled.maximum), weights[2:5, :4], atol=1e-5)
    colors = {"quantity": "Largest weight", "scale": "Linear", "colors": "0 to 1"}
    ok(page(model=saved / "gpt2", text=LONGER, layer="layer 1", head="Head 1", **colors))
    np.testing.assert_allclose(np.nan_to_num(drawn["heatmap"].figure.data[0].z), expected, atol=1e-5)
    # The small maps of a long layer have a range of colors of their own, also by head.
    monkeypatch.setattr("attnviz.views.selected_maps.THUMBNAIL_CELLS", 18)
    shown = {"quantity": "Mean weight", "colors": "Largest weight of this head", "layer": "layer 1", "head": "Head 1"}
    ok(page(model=saved / "gpt2", text=LONGER, **shown))
    assert drawn["heads"].figure.data[0].z.max() == LAST_CODE
    app = ok(page(model=saved / "gpt2", text=LONGER, part_of_queries=["9", "11"], part_of_keys=["0", "9"]))
    assert drawn["heatmap"].figure.data[0].z.shape == (3, 5)
    app = ok(app.text_area(key="text").set_value(TEXT).run())  # with fewer tokens than there were
    assert drawn["heatmap"].figure.data[0].z.shape == (5, 5)
    app = ok(app.selectbox(key="head").select("Mean of heads").run())
    mean = own(saved / "gpt2", TEXT).attentions[1][0].mean(0).numpy()
    assert np.nanmax(drawn["heatmap"].spec.downsampled.maximum) == pytest.approx(mean.max(), abs=1e-5)


def test_a_map_that_takes_long_is_drawn_from_a_sample_and_then_whole(saved, drawn, monkeypatch) -> None:
    monkeypatch.setattr("attnviz.state.viewport.MOST_CELLS", 50)
    monkeypatch.setattr("attnviz.views.selected_maps.CELLS", 5)
    link = {"model": saved / "gpt2", "text": LONGER, "layer": "layer 1", "head": "Head 1"}
    assert not ok(page(**link)).error
    expected = np.array(drawn["heatmap"].figure.data[0].z)
    monkeypatch.setattr("attnviz.ui.cache.LONG_WORK", 0)
    monkeypatch.setattr("attnviz.views.long_maps.FIRST_SAMPLE", 1)
    refined, downsample = threading.Event(), long_maps.downsample

    def slow(*head, sample=None, progress=None, **options):
        if progress:
            assert refined.wait(20)
        return downsample(*head, sample=sample, progress=progress, **options)

    monkeypatch.setattr(long_maps, "downsample", slow)
    app = ok(page(**link))
    coarse = np.array(drawn["heatmap"].figure.data[0].z)
    assert coarse.shape == expected.shape
    assert not np.allclose(coarse, expected, equal_nan=True)
    [progress] = app.get("progress")
    assert "This map has 5 of " in progress.proto.text
    [job] = [job for job in jobs._shared._jobs.values() if not job.is_over]
    refined.set()
    job.thread.join(20)
    app = ok(app.run())
    np.testing.assert_array_equal(drawn["heatmap"].figure.data[0].z, expected)
    assert not app.get("progress")


def weights_score(saved, weights) -> float:
    """The score of the last query with its strongest key: queries and keys come one after the other in c_attn."""
    model = hf.AutoModel.from_pretrained(saved / "gpt2").eval()
    with torch.no_grad():
        batch = hf.AutoTokenizer.from_pretrained(saved / "gpt2")(LONGER, return_tensors="pt")
        states = model(**batch, output_hidden_states=True).hidden_states[1]
        query, key, _ = model.h[1].attn.c_attn(model.h[1].ln_1(states))[0].chunk(3, dim=-1)
    head = slice(8, 16)
    return float(query[-1, head] @ key[int(weights[-1].argmax()), head] / 8**0.5)


def test_too_much_work_shows_one_layer_and_then_is_refused_in_words(saved, drawn, monkeypatch) -> None:
    layer = 4 * len(model_cache.model(str(saved / "gpt2")).layers(TEXT)[0].inputs.query_tokens) ** 2
    monkeypatch.setattr(work, "MOST_WORK", layer)
    app = ok(page(model=saved / "gpt2", text=TEXT))
    assert "the mosaic shows only layer 0" in contents(app)
    assert len(drawn["heads"].spec.names) == 4
    app = page(model=saved / "gpt2", text=TEXT, color_by="Entropy")
    assert "To measure all heads would take" in contents(app)
    monkeypatch.setattr(work, "MOST_WORK", layer - 1)
    assert "To compute all these heads would take" in contents(page(model=saved / "gpt2", text=TEXT, head="Head 1"))


def test_names_of_neighbors_are_put_together() -> None:
    layers = [LayerId("encoder", i) for i in range(3)] + [LayerId("decoder", 0), LayerId("decoder", 2)]
    assert layer_table.layer_ranges(layers) == "encoder 0–2, decoder 0, decoder 2"
    assert layer_table.layer_ranges([LayerId("decoder", i, cross=True) for i in range(2)]) == "decoder 0–1 cross"
    layers = [LayerId("layer", "pooler"), *(LayerId("encoder", 0, sub_indices=(i,)) for i in (1, 2))]
    assert layer_table.layer_ranges(layers) == "layer pooler, encoder 0.1, encoder 0.2"


def test_the_way_to_explore_and_back(saved) -> None:
    text = "the quick fox and the lazy dog"
    app = ok(page(model=saved / "bert", text=text, pinned="none"))
    app = app.switch_page("../../pages/explore.py").run()
    assert not app.exception
    assert app.text_input(key="text").value == text  # the same words there
    app = ok(app.switch_page("../../pages/models.py").run())
    assert "bert (BertModel): 2 attention layers" in contents(app)


def test_a_text_has_its_line_breaks(saved) -> None:
    text = "the fox\n  stops"
    app = ok(page(model=saved / "gpt2", text=text))
    assert app.text_area(key="text").value == text
    tokens = model_cache.model(str(saved / "gpt2")).encode(text).source.tokens
    assert "\n" in tokens
    assert app.selectbox(key="pinned").options[1:] == [f"{i} · {visible(token)}" for i, token in enumerate(tokens)]


def test_a_long_text_is_kept_in_the_session_and_not_in_the_link(saved) -> None:
    short, long = "the lazy dog", "the lazy dog\n" * 200
    app = ok(page(model=saved / "llama", text=short))
    assert linked(app, "text") == [short]
    app.text_area(key="text").set_value(long).run()
    assert linked(app, "text") == []
    assert text_note("a" * 3000) in contents(app)
    app.switch_page("../../pages/steps.py").run()
    app.switch_page("../../pages/models.py").run()
    assert app.text_area(key="text").value == long
    app.text_area(key="text").set_value(short).run()
    assert linked(app, "text") == [short]
    assert text_note("a" * 3000) not in contents(app)
    assert page(model=saved / "llama", text=long).text_area(key="text").value == long  # a link of before
