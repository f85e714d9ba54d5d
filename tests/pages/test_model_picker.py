"""What a link to Models says of another model, without a browser."""

from functools import partial

import pytest
import transformers as hf
from streamlit.testing.v1 import AppTest

from attnviz.text import EXAMPLE
from tests.support.app import linked, ok, open_page
from tests.support.tiny_models import TEXT, byte_level

LAST, BELOW = "The figure below is the last one that could be made.", "The figure below"


pytestmark = pytest.mark.usefixtures("isolated")
page = partial(open_page, "models")


@pytest.fixture(scope="module")
def saved(saved, tmp_path_factory):
    """The folders of tiny models, by name, and two that cannot be shown; never to be changed."""
    root = tmp_path_factory.mktemp("models")
    for name in ("bert", "gpt2", "t5"):
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


def the_error(app: AppTest) -> str:
    """Why a model cannot be shown; no picture of another one is under its name."""
    assert not app.exception
    assert not app.get("bidi_component"), "the picture of another model"
    [error] = app.error
    assert BELOW not in error.value
    return error.value.replace("\\", "")


# One error at a time


def test_what_a_link_says_of_another_model_leaves_the_link(saved) -> None:
    first, last = (f"{i} · {token}" for i, token in ((0, "no"), (99, "no")))
    said = {
        "pinned": first,
        "key": last,
        "heads-together": ["encoder 1, head 3", "nothing"],
        "tokens-together": [last],
        "if-off": ["decoder 9, head 1"],
        "part-of-queries": ["1", "3"],
        "special-tokens": "Hidden",
    }
    app = ok(page(model=saved / "gpt2", text=TEXT, **said))
    assert not set(said) & set(app.query_params)
    app = ok(page(model=saved / "bert", text=TEXT, **said))
    assert linked(app, "heads-together") == ["encoder 1, head 3"]
    assert set(said) & set(app.query_params) == {"heads-together", "special-tokens"}


@pytest.mark.parametrize(
    ("key", "values", "left"),
    [
        ("color-by", ["Mass"], []),
        ("rollout-to", ["encoder 1"], []),
        ("if-where", ["Diese Schicht"], ["Diese Schicht"]),
        ("if-off", ["layer 1, head 2", "Schicht 1, Kopf 3", "layer 1, head 4"], ["layer 1, head 2", "layer 1, head 3"]),
        ("find", ["fox"], []),
    ],
)
@pytest.mark.parametrize("tab", ["Overview", "Together"])
def test_a_link_loses_only_what_the_model_does_not_have(saved, key, values, left, tab) -> None:
    app = ok(page(model=saved / "gpt2", text=TEXT, inspect=tab, **{key: values}))
    assert linked(app, key) == left


@pytest.mark.parametrize(
    ("tab", "key", "value"),
    [
        ("Together", "heads-together", ["encoder 5, head 3"]),
        ("Together", "tokens-together", ["2 · animal"]),
        ("What if", "if-off", ["encoder 5, head 3"]),
        ("Overview", "key", "2 · animal"),
        ("Overview", "pinned", "2 · animal"),
    ],
)
def test_what_was_chosen_of_another_model_leaves_the_link(saved, tab, key, value) -> None:
    app = ok(page(inspect=tab, **{key: value}))
    assert app.session_state[key] == value
    ok(named(app, saved / "gpt2"))
    assert key not in app.query_params
    assert app.session_state[key] != value


def test_a_bad_name_leaves_what_was_chosen(saved) -> None:
    app = ok(page(inspect="Together", text=EXAMPLE + " ", heads_together=["encoder 5, head 3"], layer="encoder 2"))
    the_error(named(app, saved / "empty"))
    assert linked(app, "heads-together") == ["encoder 5, head 3"]
    assert linked(app, "layer") == ["encoder 2"]
