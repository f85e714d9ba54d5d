"""The model of a source on Explore, without a browser: names, addresses, links, and what is refused."""

from functools import partial

import pytest
import transformers as hf
from streamlit.testing.v1 import AppTest

from attnviz.models import TRANSLATOR, model_cache
from attnviz.models.hub import MINILM, SMOLLM2
from attnviz.models.text_inputs import MOST_TOKENS
from attnviz.ui import model_input, model_menu
from attnviz.ui.server import scheduling
from tests.support.app import contents, linked, ok, open_page
from tests.support.tiny_models import MODELS, TEXT, byte_level

LAST, BELOW = "The figure below is the last one that could be made.", "The figure below"


pytestmark = pytest.mark.usefixtures("isolated")
page = partial(open_page, "explore")


@pytest.fixture(scope="module")
def saved(saved, tmp_path_factory):
    """The folders of tiny models, by name, and two that cannot be shown; never to be changed."""
    root = tmp_path_factory.mktemp("models")
    for name in ("bert", "gpt2", "llama", "t5"):
        (root / name).symlink_to(saved / name)
    mamba = hf.MambaConfig(vocab_size=300, hidden_size=32, num_hidden_layers=1, state_size=4)
    hf.MambaForCausalLM(mamba).save_pretrained(root / "mamba")  # without attention
    byte_level().save_pretrained(root / "mamba")
    (root / "empty").mkdir()
    return root


def named(app: AppTest, name: object) -> AppTest:
    """The page once another model has been named."""
    [box] = [one for one in app.text_input if one.label.startswith("Its id on the hub")]
    return box.set_value(str(name)).run()


def facts(app: AppTest) -> str:
    return next(one.value for one in app.caption if "parameters" in one.value).replace("\\", "")


def the_error(app: AppTest) -> str:
    """Why a model cannot be shown; no picture of another one is under its name."""
    assert not app.exception
    assert not app.get("bidi_component"), "the picture of another model"
    [error] = app.error
    assert BELOW not in error.value
    return error.value.replace("\\", "")


def chosen(app: AppTest) -> list[str]:
    return [app.selectbox(key=key).value for key in ("layer", "head")]


# One error at a time


def test_there_is_one_error_and_it_is_about_what_was_named_last(saved) -> None:
    app = ok(page(model=saved / "gpt2", text=TEXT))
    for name, words in (("mamba", "has no attention"), ("empty", "no config.json"), ("nowhere", "There is no folder")):
        error = the_error(named(app, saved / name))
        assert words in error
        assert not [one for one in app.caption if "parameters" in one.value]
        assert linked(app, "text") == [TEXT]
    assert "bert (BertModel)" in facts(ok(named(app, saved / "bert")))
    assert app.text_input(key="text").value == TEXT


def test_a_model_that_cannot_be_shown_is_not_among_those_of_this_session(saved) -> None:
    app = named(ok(page()), saved / "mamba")
    assert app.selectbox(key="model").value == str(saved / "mamba")
    ok(app.selectbox(key="model").select(MINILM).run())
    assert app.selectbox(key="model").options == [MINILM, SMOLLM2, TRANSLATOR]


def test_what_a_model_cannot_read_shows_no_other_model(saved) -> None:
    """Its own last picture stays; where it has none, nothing is shown."""
    text = " \n"
    app = ok(page(model=MINILM))
    app.text_input(key="text").set_value(text)
    app = named(app, saved / "gpt2")
    assert "There is no text yet" in contents(app)
    assert not app.get("bidi_component")
    assert BELOW not in contents(app)
    ok(app.text_input(key="text").set_value(TEXT).run())
    shown = app.text_input(key="text").set_value(text).run()
    assert LAST in contents(shown)
    assert "gpt2 (GPT2LMHeadModel)" in facts(shown)
    tokens = model_cache.model(str(saved / "gpt2")).layers(TEXT)[0].inputs.query_tokens
    assert len(app.selectbox(key="pinned").options) == len(tokens) + 1
    app = app.selectbox(key="model").select(MINILM).run()
    assert "The figure below is the example." in contents(app)
    assert "all-MiniLM-L6-v2" in facts(app)


# Names


def test_names_taken_one_after_the_other_each_leave_an_empty_box(saved) -> None:
    app = ok(page())
    for name in ("bert", "gpt2", "t5"):
        ok(named(app, f" {saved / name} "))
        [box] = [one for one in app.text_input if one.label.startswith("Its id on the hub")]
        assert box.value == ""
        assert f"{name} (" in facts(app)
        assert chosen(app)[1] == "Head 0"
    assert asked_choices(app) == [MINILM, SMOLLM2, TRANSLATOR, *(str(saved / name) for name in ("bert", "gpt2", "t5"))]


def asked_choices(app: AppTest) -> list[str]:
    return app.selectbox(key="model").options


def test_choices_are_those_that_are_here_and_those_of_this_session(monkeypatch) -> None:
    monkeypatch.setattr(model_menu.st, "session_state", {"models of this session": ["/a/bert", MINILM]})
    monkeypatch.setattr(model_cache, "available_models", lambda hub: [MINILM, "org/gpt2"])
    assert model_menu.model_choices() == [MINILM, "org/gpt2", "/a/bert"]


@pytest.mark.parametrize("address", ["https://huggingface.co/org/bert/tree/main", "hf.co/org/bert/ "])
def test_an_address_of_the_hub_becomes_an_id(address) -> None:
    opened = page(model=address)
    assert "to ask for “org/bert”" in the_error(opened)
    for app in (named(ok(page()), address), opened.run()):
        assert "to ask for “org/bert”" in the_error(app)
        assert app.selectbox(key="model").value == "org/bert"
        assert linked(app, "model") == ["org/bert"]


def test_an_address_of_another_host_is_refused(saved) -> None:
    error = the_error(named(ok(page()), "https://example.org/org/bert"))
    assert "not of the Hugging Face hub" in error


def test_names_are_shortened_in_the_middle() -> None:
    long = "/home/someone/experiments/2026-11/attention-runs/gpt2/checkpoint-100"
    assert model_input.shortened_path(long) == "/home/…/attention-runs/gpt2/checkpoint-100"
    assert model_input.shortened_path("/tmp/bert") == "/tmp/bert"
    assert model_input.shortened_path("/" + "x" * 80) == "…" + "x" * 43


def test_the_facts_tell_folders_of_one_name_apart(tmp_path) -> None:
    said = []
    for run in ("first", "second"):
        folder = tmp_path / run / "checkpoint-100"
        make, tokenizer = MODELS["bert"]
        make().save_pretrained(folder)
        tokenizer().save_pretrained(folder)
        said.append(facts(ok(page(model=folder, text=TEXT))))
    assert all(f"{run}/checkpoint-100 (BertModel)" in one for run, one in zip(("first", "second"), said, strict=True))


def test_the_facts_of_the_model_of_the_wheel() -> None:
    assert facts(ok(page())) == (
        "all-MiniLM-L6-v2 (BertModel): 6 attention layers of 12 heads, 22,713,216 parameters; the model reads at most "
        "512 tokens. Weights of 6 layers: recomputed from the model's queries and keys, and compared with its own."
    )


def test_heads_that_share_keys_are_among_the_facts(saved) -> None:
    app = ok(page(model=saved / "llama", text=TEXT))
    assert "4 query heads share 2 heads of keys and values, 2 each (grouped-query attention)." in facts(app)
    shared = "All 6 query heads share one head of keys and values (multi-query attention)."
    assert model_input.sharing_sentence(6, 1) == shared


def test_whose_limit_it_is_that_is_said(saved) -> None:
    assert "the model reads at most 64 tokens" in facts(ok(page(model=saved / "gpt2", text=TEXT)))
    model = model_cache.model(str(saved / "gpt2"))
    vars(model.text_inputs)["limit"] = MOST_TOKENS
    assert "attnviz reads at most 8,192 tokens" in facts(ok(page(model=saved / "gpt2", text=TEXT)))


# A hosted instance


def test_a_hosted_instance_says_what_a_link_may_not_ask_for(saved, monkeypatch) -> None:
    monkeypatch.setenv("ATTNVIZ_MODELS", "org/bert")
    for name in (saved / "bert", "org/gpt2", "https://huggingface.co/org/gpt2"):
        app = page(model=name)
        error = the_error(app)
        assert "This instance shows only the models that its owner lists" in error
        assert not [one for one in app.text_input if one.label.startswith("Its id on the hub")]
        assert "again" not in [one.key for one in app.button]
        assert app.selectbox(key="model").select(MINILM).run().selectbox(key="model").options == [
            MINILM,
            SMOLLM2,
            TRANSLATOR,
            "org/bert",
        ]
        ok(app)


# Layers, heads and what else a link says of one model


def test_a_layer_and_a_head_that_the_model_has_not(saved) -> None:
    app = ok(page(model=saved / "bert", text=TEXT, layer="layer 7", head="Head 99"))
    assert chosen(app) == ["encoder 0", "Head 0"]
    assert not {"layer", "head"} & set(app.query_params)


def test_what_a_link_says_of_another_model_leaves_the_link(saved) -> None:
    of_minilm = {
        "pinned": "10 · it",
        "part-of-queries": ["1", "3"],
        "color-by": "Next token",
        "special-tokens": "Hidden",
    }
    app = ok(page(model=saved / "gpt2", text=TEXT, **of_minilm))
    assert not {*of_minilm} & {*app.query_params}


def test_what_was_chosen_of_another_model_leaves_the_link(saved) -> None:
    app = ok(page(pinned="2 · animal"))
    assert app.selectbox(key="pinned").value == "2 · animal"
    ok(named(app, saved / "gpt2"))
    assert app.selectbox(key="pinned").value != "2 · animal"
    assert "pinned" not in app.query_params


def test_a_bad_name_leaves_what_was_chosen(saved) -> None:
    app = ok(page(layer="encoder 2", head="Head 3"))
    the_error(named(app, saved / "empty"))
    assert (linked(app, "layer"), linked(app, "head")) == (["encoder 2"], ["Head 3"])


def test_another_model_opens_its_own_beginning_and_the_link_says_so(saved) -> None:
    app = ok(page(model=saved / "t5", text=TEXT, layer="decoder 1", head="Head 3"))
    ok(app.selectbox(key="model").select(MINILM).run())
    assert chosen(app)[0] == "encoder 3"
    assert "layer" not in app.query_params


def test_each_model_keeps_what_was_chosen_of_it(saved) -> None:
    app = ok(page(model=saved / "gpt2", text=TEXT, pinned="none"))
    app.selectbox(key="layer").select("layer 1").run()
    app.selectbox(key="head").select("Head 2").run()
    ok(app.selectbox(key="model").select(MINILM).run())
    app.selectbox(key="head").select("Head 7").run()
    ok(named(app, saved / "gpt2"))
    assert chosen(app) == ["layer 1", "Head 2"]
    ok(app.switch_page("../../pages/steps.py").run())
    ok(app.switch_page("../../pages/explore.py").run())
    assert "gpt2" in facts(app)
    assert chosen(app) == ["layer 1", "Head 2"]
    assert linked(app, "layer") == ["layer 1"]


def test_models_with_equally_many_heads_keep_their_own(saved) -> None:
    app = ok(page(model=saved / "gpt2", text=TEXT))
    app.selectbox(key="head").select("Head 2").run()
    ok(named(app, saved / "bert"))
    app.selectbox(key="head").select("Head 3").run()
    ok(app.selectbox(key="model").select(str(saved / "gpt2")).run())
    assert chosen(app) == ["layer 0", "Head 2"]
    ok(app.selectbox(key="model").select(str(saved / "bert")).run())
    assert chosen(app) == ["encoder 0", "Head 3"]


def test_a_link_keeps_its_layer_for_a_model_that_comes_later(saved, tmp_path) -> None:
    folder = tmp_path / "late"
    app = page(model=folder, text=TEXT, layer="layer 1", head="Head 2")
    assert "There is no folder" in the_error(app)
    folder.mkdir()
    for file in (saved / "gpt2").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    ok(app.button(key="again").click().run())
    assert chosen(app) == ["layer 1", "Head 2"]


def test_the_model_of_the_wheel_opens_while_others_compute(monkeypatch):
    slots = scheduling.FairSlots(1)
    slots.acquire("somebody else")
    monkeypatch.setattr(scheduling, "_heavy", slots)
    ok(page())
    slots.release("somebody else")
