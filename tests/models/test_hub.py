"""Names of models as people bring them: ids, addresses of the hub, folders."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attnviz.models.hub import model_id
from attnviz.models.model_cache import model

ID = "openai-community/gpt2"
PART = st.text(string.ascii_letters + string.digits, min_size=1, max_size=9)


@pytest.mark.parametrize("start", ["https://huggingface.co/", "http://www.huggingface.co/", "hf.co/", "HTTPS://HF.co/"])
@pytest.mark.parametrize(
    "end", ["", "/", " ", "/tree/main", "/tree/main/", "/blob/main/config.json", "?library=transformers", "#usage"]
)
def test_the_id_is_taken_out_of_an_address_of_the_hub(start: str, end: str) -> None:
    assert model_id(f" {start}{ID}{end}\n") == ID


def test_the_oldest_models_have_no_owner() -> None:
    assert model_id("https://huggingface.co/gpt2") == "gpt2"
    assert model_id("https://huggingface.co/gpt2/tree/main") == "gpt2"
    assert model_id("https://huggingface.co/openai-community/gpt2/discussions/7") == ID


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/openai-community/gpt2",
        "https://huggingface.co.example.org/openai-community/gpt2",
        "https://huggingface.co@example.org/openai-community/gpt2",
        "https://example.org@huggingface.co/openai-community/gpt2",
        "https://huggingface.co\\@example.org/openai-community/gpt2",
        "https://huggingface.co:8443/openai-community/gpt2",
        "https://example.org/?huggingface.co/openai-community/gpt2",
        "https:///openai-community/gpt2",
        "ftp://huggingface.co/openai-community/gpt2",
        "file:///etc/passwd",
        "https://<b>*x*</b>/gpt2",
    ],
)
def test_an_address_of_another_host_is_refused_and_not_asked_for(address: str) -> None:
    for take in (model_id, model):
        with pytest.raises(ValueError, match=r"is an address, but not of the Hugging Face hub\. Write it as"):
            take(address)


@pytest.mark.parametrize(
    "path", ["", "/", "datasets/squad", "spaces/a/b", "docs/transformers", "models", "api/models/a/b"]
)
def test_an_address_of_the_hub_that_is_no_models(path: str) -> None:
    with pytest.raises(ValueError, match="is not the address of a model"):
        model_id(f"https://huggingface.co/{path}")


def test_a_revision_is_not_taken_for_another() -> None:
    with pytest.raises(ValueError, match="is the revision “fp16” of a model; only main is read here"):
        model_id(f"https://huggingface.co/{ID}/tree/fp16")


@pytest.mark.parametrize(
    "name", [ID, "gpt2", "/home/me/huggingface.co/gpt2", "~/x", "./hf.co/gpt2", "/a://b", "", "a b"]
)
def test_what_is_no_address_stays_as_it_is(name: str) -> None:
    assert model_id(name) == name


@given(
    st.one_of(st.text(max_size=40), st.builds("{}/{}".format, st.sampled_from(["https://hf.co", "hf.co"]), st.text()))
)
@example("hf.co/hf.co/hf.co")
def test_taking_twice_is_taking_once(written: str) -> None:
    try:
        once = model_id(written)
    except ValueError:
        return
    assert model_id(once) == once


@given(PART, PART)
def test_every_id_is_found_again(owner: str, name: str) -> None:
    if owner not in ("datasets", "docs", "models", "spaces", "api", "blog", "tasks", "papers"):
        assert model_id(f"https://huggingface.co/{owner}/{name}?x=1#y") == f"{owner}/{name}"
