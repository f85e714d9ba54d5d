"""The tab that compares weight, share and effect, opened by its link."""

import re

import pytest
import torch
from streamlit.testing.v1 import AppTest
from transformers import BloomConfig, BloomForCausalLM

from attnviz.models import MINILM
from tests.support.app import contents, errors, healthy, ok, open_page
from tests.support.tiny_models import TEXT
from tests.support.waiting import until

REASON = (
    "It works through others|Others make up for|its own share changes by|what others write changes the measure little"
)


def finished(app: AppTest) -> AppTest:
    """The page, when its jobs are over."""
    until(lambda: not ok(app.run()).get("progress"), pause=1)
    return app


def tiny(saved, **link: object) -> AppTest:
    return open_page("effects", **{"why-model": saved / "gpt2", "text": TEXT, "compared": "true"} | link)


def test_heads_are_listed_with_reasons(saved) -> None:
    app = finished(tiny(saved))
    healthy(app, charts=2)
    text = contents(app)
    assert "Where share and effect disagree most" in text
    assert len(re.findall(REASON, text)) >= 5
    assert text.count("effects-head=") == 5  # links that choose a head


def test_another_axis_lists_other_heads(saved) -> None:
    app = finished(tiny(saved))
    app.selectbox(key="heads-across").select("weight")
    assert "Where weight and effect disagree most" in contents(finished(app))


def test_a_chosen_head_has_its_reasons_too(saved) -> None:
    listed = re.findall(r"layer (\d), head (\d)</a>", contents(finished(tiny(saved))))
    others = [(layer, head) for layer in "01" for head in "0123" if (layer, head) not in listed]
    app = finished(tiny(saved, effects_head=f"layer {others[0][0]}, head {others[0][1]}"))
    text = contents(app)
    assert len(re.findall(REASON, text)) >= 6


@pytest.mark.parametrize("head", range(4))
def test_a_chosen_head_may_have_no_reason(saved, head: int) -> None:
    finished(tiny(saved, measure="probability", effects_head=f"layer 1, head {head}"))


def test_a_measure_that_is_no_sum_has_weights_and_effects() -> None:
    app = finished(open_page("effects", why_model=MINILM, compared="true"))
    assert app.selectbox(key="heads-across").options == ["weight", "effect"]
    text = contents(app)
    assert "Where weight and effect disagree most" in text
    assert re.search(r"what it reads there is (small: )?[\d.]+% of the largest vector", text)


def test_other_texts_that_cannot_be_used_are_refused(saved) -> None:
    app = tiny(saved, instead="its mean over other texts", other_texts="a\n" * 10_000)
    assert "these are 10,000." in errors(app)


def test_a_model_without_known_weights_says_so(saved, tmp_path) -> None:
    torch.manual_seed(0)
    BloomForCausalLM(BloomConfig(vocab_size=400, hidden_size=32, n_layer=2, n_head=4)).save_pretrained(tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / file).write_bytes((saved / "gpt2" / file).read_bytes())
    app = finished(open_page("effects", **{"why-model": tmp_path, "text": TEXT, "compared": "true"}))
    assert "they have no weight" in contents(app)
    assert "unknown" in contents(app)
