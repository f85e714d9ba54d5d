"""The tabs Patching and Logit lens: what parts of a clean run recover, and what is said after each layer."""

import re

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.models import MINILM, TRANSLATOR
from attnviz.pages.effects.state import LENS, MORE, PATCHED, PATCHING
from tests.pages.test_effects import largest, measured, summary, tiny
from tests.support.app import contents, errors, ok, open_page
from tests.support.tiny_models import TEXT

CHANGED = TEXT.replace("quick brown", "brown quick")
LONGER = TEXT.replace("brown", "brown little")


def patching(saved, name: str, corrupted: str = CHANGED, **link: object) -> AppTest:
    return tiny(saved, name, inspect=PATCHING, corrupted=corrupted, **link)


def alignment(app: AppTest) -> list[str]:
    """The classes of the columns of tokens."""
    return re.findall(r'<div class=["\']attnviz-(same|other|alone)', contents(app))


# The tokenizer of the tiny Gemma 2 makes texts of different lengths, of which weights cannot be taken.
@pytest.mark.parametrize(
    ("name", "part"),
    [(name, part) for name in ("gpt2", "t5") for part in PATCHED]
    + [("gemma2", part) for part, what in PATCHED.items() if what != "pattern"],
)
def test_every_part_of_tiny_models(saved, name: str, part: str) -> None:
    app = measured(patching(saved, name, patched=part, paths="the query", effects_head="layer 1, head 1"))
    assert re.search(r"in the clean run, .* in the corrupted one. Most is recovered ", summary(app))
    assert {"same", "alone" if name == "gemma2" else "other"} <= {*alignment(app)}


def test_paths_lead_into_the_chosen_head(saved) -> None:
    app = measured(patching(saved, "gpt2", patched="the output of a head", effects_head="layer 1, head 1"))
    charts = len(app.get("bidi_component"))
    app = measured(app.selectbox(key="paths").select("the key").run())
    assert len(app.get("bidi_component")) == charts + 1
    assert "Direct paths: " in contents(app)
    first = measured(
        patching(saved, "gpt2", patched="the output of a head", effects_head="layer 0, head 1", paths="the key")
    )
    assert "Paths lead from heads of earlier layers" in contents(first)


def test_the_alignment_is_shown_and_corrected(saved) -> None:
    app = measured(patching(saved, "gpt2", LONGER))
    before = alignment(app)
    assert "alone" in before
    assert before[0] == "same"
    assert "click one of the corrupted text" in contents(app)
    app = measured(patching(saved, "gpt2", LONGER, **{"aligned-token": "0"}))
    assert re.search(r"belongs to:.*href='[^']*corrections=0-[^']*'>no token", contents(app))
    app = measured(patching(saved, "gpt2", LONGER, corrections="0-"))
    assert alignment(app).count("alone") == before.count("alone") + 2
    assert "Undo 1 correction" in contents(app)


@pytest.mark.parametrize(
    ("corrupted", "reason"),
    [
        (" ", "There is no text yet"),
        ("fox " * 900, "tokens, and"),
        ("zzz", "No token of the clean text belongs to one of the corrupted text"),
    ],
    ids=["none", "too long", "another"],
)
def test_a_text_that_cannot_be_patched_keeps_the_picture(saved, corrupted: str, reason: str) -> None:
    app = measured(patching(saved, "gpt2"))
    before = summary(app)
    app = app.text_input(key="corrupted").set_value(corrupted).run()
    assert reason in contents(app) + errors(app)
    assert summary(app) == before


def test_a_pattern_of_a_longer_text_is_refused(saved) -> None:
    app = patching(saved, "gpt2", LONGER, patched="the weights of a head")
    assert "A pattern is taken from a text of the same number of tokens" in errors(app)
    assert alignment(app), "the tokens are shown, so that they can be corrected"


def test_the_same_text_has_nothing_to_recover(saved) -> None:
    assert "Both are the same, so there is nothing to recover" in summary(measured(patching(saved, "gpt2", TEXT)))


@pytest.mark.parametrize("model", [MINILM, TRANSLATOR])
def test_models_that_are_installed(model: str) -> None:
    app = measured(open_page("effects", **{"why-model": model}, inspect=PATCHING, patched="the output of a head"))
    assert len(largest(app)) == 10
    assert "Most is recovered with " in summary(app)


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "t5"])
def test_the_logit_lens_of_tiny_models(saved, name: str) -> None:
    lens = {"inspect": MORE, "effects_more": LENS}
    app = ok(tiny(saved, name, **lens, lens_cell="1.2"))
    assert "is the likeliest token" in summary(app)
    assert len(re.findall("Why this word\\?</a>", contents(app))) == 5
    assert summary(ok(tiny(saved, name, **lens, lens_color="entropy", measure="KL of all tokens")))


def test_the_logit_lens_of_a_sentence_vector_is_refused() -> None:
    app = open_page("effects", **{"why-model": MINILM}, inspect=MORE, effects_more=LENS)
    assert "Choose a language model" in errors(app)
