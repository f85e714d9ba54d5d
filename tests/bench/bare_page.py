"""The least that shows a head: the same forward, and one st.plotly_chart."""

import plotly.graph_objects as go
import streamlit as st
import torch

from attnviz.base.text import EXAMPLE
from attnviz.models.minilm import minilm

model = minilm()
text = st.text_input("Text", EXAMPLE)
with torch.inference_mode():
    batch = model.tokenizer(text, return_tensors="pt")
    weights = model.model(**batch, output_attentions=True).attentions[3][0, 1]
st.plotly_chart(go.Figure(go.Heatmap(z=weights.numpy())), key="heatmap")
