"""The Masks page without a browser: every tab, every mask, and every bad input that a person or a link can bring."""

import re
from functools import partial
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from attnviz.analysis.mass_kept import mass_kept
from attnviz.masks import MASKS, Causal, SlidingWindow, Strided
from attnviz.masks.parser import parse
from attnviz.mechanism import Mechanism
from attnviz.sources import Model
from tests.support.app import contents, errors, healthy, ok, open_link, open_page
from tests.support.array_files import npz
from tests.support.page_texts import said

ROOT = Path(__file__).parents[2]
PARTS = ("Mass kept", "Cost", "Code", "Conventions", "Stacked layers", "Empty rows")
ENGINEERS = {"look": "For engineers"}


page = partial(open_page, "masks")
with_charts = partial(healthy, charts=3)


def in_words(app: AppTest, side: str):
    return app.text_input(key=f"mask-{side}")


def menu(app: AppTest, side: str):
    return app.menu_button(key=f"mask-{side}-menu")


def script(app: AppTest) -> str:
    return "".join(code.value for code in app.code if code.language == "python")


def test_begins_with_full_and_causal_and_counts_four_kinds_of_cells() -> None:
    app = with_charts(page())
    assert (in_words(app, "a").value, in_words(app, "b").value) == ("full", "causal")
    assert "<b>120</b> removed" in contents(app)
    assert "<b>0</b> added" in contents(app)
    assert "Under B <b>it</b> no longer sees 5 keys" in contents(app)


def test_equal_masks_change_nothing() -> None:
    app = with_charts(page(mask_a="causal", mask_b="sliding_window(100)"))
    assert "<b>136</b> kept as they were" in contents(app)
    assert "Every weight of <b>it</b> is the same" in contents(app)


def test_maps_of_a_long_text_have_fewer_cells_and_fewer_tabs(monkeypatch) -> None:
    monkeypatch.setattr("attnviz.page.viewport.MOST_CELLS", 16 * 16 - 1)
    app = with_charts(page(mask_b="sliding_window(3)"))
    assert "kept as they were" not in contents(app)
    assert not app.error
    app = ok(page(mask_b="sliding_window(3)", **ENGINEERS))
    assert app.selectbox(key="part").options == ["Mass kept", "Cost", "Code", "Conventions"]


@pytest.mark.parametrize("part", PARTS)
def test_every_part_opens_for_one_head_and_for_several(part: str) -> None:
    ok(page(part=part, **ENGINEERS))
    assert said("masks", part=part, head="Mean of heads", mask_a="sliding_window(2)", mask_b="~band(30)", **ENGINEERS)


def test_the_gallery_needs_no_file_of_the_server_and_loads_into_a_side() -> None:
    pictures = re.findall(r"<a href='([^']+)'><img src='([^']+)'", contents(page(look="Gallery", load_into="A")))
    assert len(pictures) == len(MASKS)
    for _link, image in pictures:  # a browser that asks for a file after the tab was left would be told there is none
        assert image.startswith("data:image/svg+xml,")
    link = next(link for link, _image in pictures if "big_bird" in link)
    app = open_link("masks", parse_qsl(urlsplit(link).query))
    assert in_words(with_charts(app), "a").value.startswith("big_bird(")


@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: mask.__name__)
def test_every_mask_of_the_catalogue_is_described_with_its_cost(mask: type) -> None:
    assert mask().describe() in said("masks", mask_b=mask())
    assert "blocks computed" in said("masks", mask_b=mask(), part="Cost", **ENGINEERS)


def test_menu_words_and_parameters_are_one_state() -> None:
    app = page()
    menu(app, "b").click("Sliding window").run()
    assert in_words(app, "b").value == "sliding_window(4)"
    app.number_input(key="mask-b.size").set_value(2).run()
    assert in_words(app, "b").value == "sliding_window(2)"
    in_words(app, "b").set_value("sliding_window(7, steps_back)").run()
    assert app.number_input(key="mask-b.size").value == 7
    assert app.selectbox(key="mask-b.counts").value == "steps back"
    in_words(app, "b").set_value("causal | k < 2").run()
    assert menu(app, "b").label == "Custom rule"
    menu(app, "b").click("— Sparse —").run()
    assert menu(app, "b").label == "Strided"
    assert in_words(app, "b").value == str(Strided())
    with_charts(app)


def test_undo_goes_back_one_mask_after_the_other() -> None:
    app = page()
    for text in ("band(1)", "causal & k < 3"):
        in_words(app, "b").set_value(text).run()
    for expected in ("band(1)", "causal"):
        app.button(key="undo-B").click().run()
        assert in_words(app, "b").value == expected
    assert app.button(key="undo-B").disabled


@pytest.mark.parametrize("text", ["", "causal &", "__import__('os')", "~" * 300 + "causal"])
def test_a_mistake_is_said_with_its_place_and_the_last_good_mask_stays(text: str) -> None:
    app = page(mask_b="band(2)")
    kept = contents(app)[contents(app).index("attnviz-outcomes") :]
    in_words(app, "b").set_value(text).run()
    with_charts(app)
    assert "The figure below is the last one that could be made." in errors(app)
    assert "^</pre>" in contents(app)
    assert in_words(app, "b").value == text
    assert kept.split("</p>")[0] in contents(app)
    in_words(app, "b").set_value("causal").run()
    assert not app.error


def test_a_link_with_a_mistake_opens_with_the_example() -> None:
    app = with_charts(page(mask_a="nonsense(4)"))
    assert "^</pre>" in contents(app)
    assert "Every query sees every key." in contents(app)


@pytest.mark.parametrize(
    ("pasted", "expected"),
    [("1 0\n1 1", "The grid is 2 × 2"), ("<b>", "<b>")],
)
def test_a_grid_that_does_not_fit_is_refused_in_words(pasted: str, expected: str) -> None:
    app = page()
    app.text_area(key="pasted-B").set_value(pasted).run()
    with_charts(app)
    assert app.error
    assert expected in contents(app)


def test_a_pasted_and_an_uploaded_grid_become_the_mask() -> None:
    grid = np.tril(np.ones((16, 16), dtype=int), 1)
    app = page()
    app.text_area(key="pasted-B").set_value("\n".join(",".join(map(str, row)) for row in grid)).run()
    np.testing.assert_array_equal(parse(in_words(with_charts(app), "b").value).array(), grid)
    assert not app.error


def test_biases_of_one_side_leave_the_other_alone() -> None:
    app = page(mask_b="full")
    app.multiselect(key="biases-b").select("ALiBi").run()
    assert "<b>0</b> kept as they were" in contents(with_charts(app))
    assert "another normalizer, or other scores" not in contents(app)


def test_masks_of_more_keys_than_queries_are_compared_but_not_stacked() -> None:
    app = page(source="Upload")
    query, key = np.random.default_rng(0).normal(size=(2, 5, 8)), np.random.default_rng(1).normal(size=(2, 9, 8))
    file = npz(query=query, key=key, value=key)
    app.file_uploader[0].upload("cross.npz", file)
    app.run()
    assert "<b>10</b> removed" not in contents(with_charts(app))
    in_words(app, "b").set_value("causal(bottom_right)").run()
    assert "<b>10</b> removed" in contents(with_charts(app))


def test_finished_weights_cannot_be_masked_anew() -> None:
    file = npz(weights=np.eye(4))
    app = page(source="Upload")
    app.file_uploader[0].upload("weights.npz", file)
    app.run()
    assert not app.exception
    assert not app.get("bidi_component")
    assert "only weights" in contents(app)


def test_masks_are_kept_while_another_page_is_open() -> None:
    app = page(mask_a="band(1)", mask_b="sinks(3)")
    app.switch_page("../../pages/explore.py").run()
    app.switch_page("../../pages/masks.py").run()
    assert (in_words(app, "a").value, in_words(app, "b").value) == ("band(1)", "sinks(3)")
    assert menu(app, "b").label == "Sinks"


def test_undo_takes_back_a_mistake_first() -> None:
    app = page(mask_b="band(1)")
    in_words(app, "b").set_value("causal &").run()
    app.button(key="undo-B").click().run()
    assert in_words(app, "b").value == "band(1)"
    in_words(app, "b").set_value("causal &").run()
    in_words(app, "b").set_value("sinks(2)").run()
    app.button(key="undo-B").click().run()
    assert in_words(app, "b").value == "band(1)"


def test_biases_are_said_with_the_mask() -> None:
    assert "Every query sees every key. With ALiBi." in said("masks", mask_b="full", biases_b="ALiBi")


def test_heads_together_are_not_explained_as_one() -> None:
    mean = said("masks", head="Mean of heads", mask_b="h < 2 & causal")
    assert "These are means of several heads" in mean
    assert "went nowhere, in heads where" in mean
    assert "do not add up to 1" in said("masks", head="Maximum of heads")
    empty = said("masks", head="Mean of heads", mask_b="h < 2 & causal", part="Empty rows", **ENGINEERS)
    assert "heads with empty rows: 10 of 12" in empty


def test_the_factor_is_one_divided_by_what_was_left() -> None:
    found = re.search(r"has 1 / ([0-9.e-]+) = ([0-9.e+]+) times", said("masks", mask_b="k != 0"))
    assert found
    assert 1 / float(found[1]) == pytest.approx(float(found[2]), rel=0.01)


def test_the_cost_is_the_sum_of_all_heads() -> None:
    """A mask that differs by head was counted in one head alone."""
    link = {"mask_b": "causal & (q - k < 4 | h % 2 == 0)", "part": "Cost", "tokens": "4,096", **ENGINEERS}
    text = said("masks", **link)
    assert f"{6 * (4096 + 4):,} keys, " in text  # half of the heads need all keys, and half the last four
    assert "the sum of 12 heads: 6 heads (0, 2, 4, 6, 8, 10) keep 8,390,656 pairs and 4,096 keys each; " in text
    assert "6 heads (1, 3, 5, 7, 9, 11) keep 16,378 pairs and 4 keys each." in text
    assert "A: the mask is the same in all heads (12)" in text


def test_blocks_and_the_numbers_of_the_cache_can_be_chosen() -> None:
    cost = partial(said, "masks", part="Cost", **ENGINEERS, tokens="512")
    size = "<td>{} and {}</td>".format
    assert size(12 * 6, 12 * 4) in cost()
    smaller = cost(block="64", cache_type="fp8 or int8")
    assert size(12 * 28, 12 * 8) in smaller
    assert "in each key head" in smaller
    found = [
        re.search("at its fullest: ([0-9]+) bytes a key", cost(cache_type=kind))
        for kind in ("fp32", "fp16 or bf16", "fp8 or int8")
    ]
    largest, *others = (int(size[1]) for size in found if size)
    assert others == [largest // 2, largest // 4]


def test_code_can_be_had_at_the_length_chosen_in_cost() -> None:
    app = page(part="Code", **ENGINEERS, mask_b="causal(bottom_right)", tokens="4,096")
    assert "# Attention of 4096 queries and 4096 keys, 12 heads, with PyTorch's FlexAttention." in script(app)
    app.selectbox(key="tokens").set_value("128").run()
    assert "# Attention of 128 queries and 128 keys" in script(app)
    assert not app.error


def test_a_script_with_very_many_numbers_is_only_downloaded() -> None:
    app = page(part="Code", **ENGINEERS, mask_b="big_bird(2, 8)", tokens="4,096")
    assert not script(app)
    assert "This script is long" in contents(app)
    assert app.get("download_button")


def test_stacked_layers_take_a_pattern_of_both_masks() -> None:
    link = {**ENGINEERS, "part": "Stacked layers", "mask_a": "sliding_window(2)", "mask_b": "causal", "layers": 4}
    app = healthy(page(**link), charts=2)
    assert "Under A the last query depends on 2 → 3 → 4 → 5 of 16 keys" in contents(app)
    charts = len(app.get("bidi_component"))
    app = page(**link, pattern="aaab")
    assert "Under AAAB the last query depends on 2 → 3 → 4 → 16 of 16 keys, layer by layer." in contents(app)
    assert "Under A the last query depends on 2 → 3 → 4 → 5 of 16 keys" in contents(app)
    assert len(app.get("bidi_component")) == charts + 1


def test_a_pattern_of_other_letters_is_refused_and_the_pictures_stay() -> None:
    app = ok(page(**ENGINEERS, part="Stacked layers", pattern="AAxB"))
    assert "A pattern is made of the letters A and B, such as AAAAAB; it has “x”. Delete that." in contents(app)
    assert "Under B the last query depends on" in contents(app)


def test_a_pasted_mask_mod_is_a_mask() -> None:
    app = with_charts(page(mask_b="lambda b, h, q, kv: (q >= kv) & (q - kv < 4)"))
    assert not app.error
    assert parse("q >= k & q - k < 4").describe() in contents(app)


def test_mass_kept_names_what_is_lost_and_takes_a_pattern_at_equal_cost(drawn) -> None:
    app = page(**ENGINEERS, part="Mass kept", mask_a="causal", mask_b="sliding_window(2)", budget="30%")
    text = contents(healthy(app, charts=1))
    assert "of its attention under B, on average over its queries" in text
    inputs = Model().layers()[4].inputs
    means = [mass_kept(inputs, Mechanism(mask=Causal()), SlidingWindow(2), head).mean for head in range(12)]
    np.testing.assert_allclose(drawn["kept"].figure.data[0].z[4], means, atol=1e-5)
    assert all(name in text for name in ("Vertical-slash", "Block-sparse top-k", "blocks of 128"))
    own, pattern = (
        re.search(rf"<a href='([^']+)'[^>]*>{name}", text) for name in ("Take this layer’s own mask", "[^<]+ as B")
    )
    app = open_link("masks", parse_qsl(urlsplit(pattern[1]).query))
    taken = in_words(ok(app), "b").value
    assert taken != "sliding_window(2)"
    assert repr(parse(taken)) != ""
    assert in_words(ok(open_link("masks", parse_qsl(urlsplit(own[1]).query))), "a").value == "full"


def test_mass_kept_of_several_heads_and_of_negative_weights_says_why_not() -> None:
    app = page(**ENGINEERS, part="Mass kept", head="Mean of heads")
    assert "Choose one head" in contents(healthy(app, charts=1))
    app = page(**ENGINEERS, part="Mass kept", normalizer="Differential")
    assert "negative weights" in contents(app)


def test_the_numbers_of_a_named_mask_are_in_the_link_and_follow_the_mask() -> None:
    app = page(**ENGINEERS, part="Conventions", idea="Sliding window", size="6", queries="5")
    assert [app.number_input(key=key).value for key in ("size", "queries", "keys")] == [6, 5, 12]
    app = page(**ENGINEERS, part="Conventions")
    assert app.number_input(key="queries").value == 8  # whose alignment is in question
    app.selectbox(key="idea").set_value("Sliding window").run()
    assert [app.number_input(key=key).value for key in ("size", "queries")] == [4, 12]
    app.number_input(key="size").set_value(2).run()
    app.selectbox(key="idea").set_value("Neighborhood on a grid").run()  # of 3 keys or more
    assert app.number_input(key="size").value == 3
    healthy(app)
