"""What we rely on in Streamlit, Plotly, transformers and torch, so that a new version that changes it is noticed."""

import inspect
import tomllib
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path

import numpy as np
import plotly
import plotly.graph_objects as go
import streamlit as st
import torch
from plotly.offline import get_plotlyjs, get_plotlyjs_version
from streamlit.runtime import Runtime
from streamlit.runtime.memory_session_storage import MemorySessionStorage
from streamlit.runtime.websocket_session_manager import WebsocketSessionManager
from transformers import AttentionInterface, AttentionMaskInterface, BertConfig, BertModel, masking_utils

ROOT = Path(__file__).parents[1]


def test_the_versions_this_was_written_for() -> None:
    assert version("torch").split("+")[0] == "2.13.0"
    assert version("streamlit").startswith("1.67.")
    assert version("plotly").startswith("7.1.")
    assert version("transformers").startswith("5.23.")


def test_streamlit_binds_widgets_to_the_link() -> None:
    for widget in (st.selectbox, st.multiselect, st.number_input, st.text_input, st.toggle):
        assert "bind" in inspect.signature(widget).parameters
    assert "max_upload_size" in inspect.signature(st.file_uploader).parameters
    assert "scope" in inspect.signature(st.cache_resource.__call__).parameters


def test_streamlit_serves_an_app_with_routes_middleware_and_lifespan() -> None:
    assert {"routes", "middleware", "lifespan"} <= inspect.signature(st.App).parameters.keys()


def test_streamlit_keeps_ended_sessions_in_a_cache_that_can_be_purged() -> None:
    storage = MemorySessionStorage()
    assert callable(storage._cache.expire)  # type: ignore[attr-defined]
    assert "self._session_storage = session_storage" in inspect.getsource(WebsocketSessionManager)
    assert "self._session_mgr = " in inspect.getsource(Runtime)


def test_streamlit_listens_on_this_machine_alone() -> None:
    config = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    assert ip_address(config["server"]["address"]).is_loopback
    assert config["server"]["allowedHosts"] == ["localhost", "127.0.0.1", "::1"]


def test_a_figures_own_json_would_be_text_and_its_traces_keep_arrays() -> None:
    figure = go.Figure(go.Heatmap(z=np.zeros((2, 2), "f4")))
    assert "bdata" in figure.to_plotly_json()["data"][0]["z"]
    assert isinstance(figure.data[0].to_plotly_json()["z"], np.ndarray)


def test_plotly_carries_its_script() -> None:
    assert plotly.__version__.startswith("7.1.")
    assert f"plotly.js v{get_plotlyjs_version()}" in get_plotlyjs()[:200]


def test_transformers_calls_registered_functions_of_queries_and_masks() -> None:
    seen: list[str] = []

    def attention(module, query, key, value, mask, **more):
        seen.append(f"attention {tuple(query.shape)}")
        return value.transpose(1, 2).contiguous(), None

    def mask(**more):
        seen.append("mask" if {"mask_function", "batch_size", "q_length", "kv_length"} <= more.keys() else str(more))

    AttentionInterface.register("platform", attention)
    AttentionMaskInterface.register("platform", mask)
    model = BertModel(
        BertConfig(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    )
    assert model._can_set_attn_implementation()
    model.set_attn_implementation("platform")
    model.eval()(input_ids=torch.tensor([[1, 2, 3]]))
    assert seen == ["mask", "attention (1, 2, 3, 4)"]


def test_transformers_masks_have_the_signature_of_ours() -> None:
    for rule in (masking_utils.causal_mask_function, masking_utils.bidirectional_mask_function):
        assert list(inspect.signature(rule).parameters) == ["batch_idx", "head_idx", "q_idx", "kv_idx"]
