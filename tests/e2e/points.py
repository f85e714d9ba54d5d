"""Figures whose points are read and clicked, a map in fewer cells, and figures that are only shown: a page for
test_points.py."""

from typing import Any

import numpy as np
import plotly.graph_objects as go
import streamlit as st
import torch

from attnviz import Inputs
from attnviz.analysis.downsampling import downsample_map
from attnviz.figures import downsampled_map, head_grid, products, scatter
from attnviz.figures.chart_spec import About, Chart, PlainSpec
from attnviz.ui.chart import Cells, chart
from attnviz.ui.server.scripts import component_styles


def clicked(key: str, **more: Any) -> None:
    def click(row: int, column: int) -> None:
        st.session_state["clicked"] = f"{key} {row} {column}"

    picture = figures[key].with_about(label=key, name=key, hint="Point at it.")
    chart(picture, key, height=260, grows=True, on_click=click, **more)


def look(cells: Cells | None) -> None:
    st.session_state["part"] = cells


x, y = np.array([0.0, 1.0, 2.0, np.nan, 4.0]), np.array([3.0, 0.0, 1.0, 2.0, 4.0])
part = st.session_state.get("part")
weights = torch.zeros(4, 4).index_put_((torch.tensor([0, 2, 3]), torch.tensor([1, 1, 2])), torch.tensor([0.25, 0.5, 1]))
weights[:2, 2:] = torch.nan
inputs = Inputs(*torch.zeros(3, 1, 4, 1), tuple("abcd"), tuple("abcd"))
rows, keys = slice(None), slice(None)
if part:
    top, bottom, left, right = part
    rows, keys = slice(max(0, 2 * top), 2 * bottom + 2), slice(max(0, 2 * left), 2 * right + 2)
cells = (1, 1) if part else (2, 2)
small = downsample_map(lambda rows: weights[rows], inputs, cells=cells, queries=rows, keys=keys)
figures = {
    "scatter": scatter(x, y, [f"Head {i} <b>" for i in range(5)], np.array([0, 0, 1, 1, 2])),
    "grid": head_grid(np.array([[0.1, 0.5], [1.0, np.nan]]), ["Head 0", "Head 1", "Head 2", ""]),
    "products": products(np.array([1.0, -2.0, 0.5]), np.array([2.0, 1.0, 1.0])),
    "long": downsampled_map(small, "abcd", "abcd", viewport=bool(part), zoom_key=str(part)),
}
st.html(f"<style>{component_styles()}</style>")
st.text(st.session_state.get("clicked", "nothing yet"))
st.text(f"In view: {tuple(part) if part else 'all'}")
bars = go.Figure(go.Bar(x=["a", "b", "c"], y=np.array([1, 3, 2])))
lines = go.Figure([go.Scatter(y=np.arange(4.0)), go.Scatter(y=np.arange(4)[::-1])])
lines.update_layout(xaxis_tickvals=[0, 1, 2, 3], annotations=[{"x": 1, "y": 1, "text": "here"}])
lines.add_shape(type="line", x0=0, x1=1, y0=0, y1=1)
left, right = st.columns(2)
with left:
    clicked("scatter")
    clicked("products")
with right:
    clicked("grid")
    clicked("long", on_zoom=look)
for key, figure in (("bars", bars), ("lines", lines)):
    chart(Chart(figure, PlainSpec(), About(label=key, description="")), key, height=300, grows=True)
