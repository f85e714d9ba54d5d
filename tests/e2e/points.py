"""Figures whose points are read and clicked, and a map in fewer cells: a page for test_points.py."""

import numpy as np
import streamlit as st

from attnviz.figures import head_grid, long_map, products, scatter
from attnviz.ui.chart import chart


def clicked(key: str) -> None:
    def click(row: int, column: int) -> None:
        st.session_state["clicked"] = f"{key} {row} {column}"

    chart(figures[key], key, label=key, name=key, description="", height=260, hint="Point at it.", on_click=click)


x, y = np.array([0.0, 1.0, 2.0, np.nan, 4.0]), np.array([3.0, 0.0, 1.0, 2.0, 4.0])
query = np.array([[0, -1], [2, 3]])
figures = {
    "scatter": scatter(x, y, [f"Head {i} <b>" for i in range(5)], np.array([0, 0, 1, 1, 2])),
    "grid": head_grid(np.array([[0.1, 0.5], [1.0, np.nan]]), ["Head 0", "Head 1", "Head 2", ""]),
    "products": products(np.array([1.0, -2.0, 0.5]), np.array([2.0, 1.0, 1.0])),
    "long": long_map(
        np.array([[0.25, np.nan], [0.5, 1.0]]), query, query - 1, np.array([0, 2]), np.array([0, 2]), "abcd", "abcd"
    ),
}
st.text(st.session_state.get("clicked", "nothing yet"))
left, right = st.columns(2)
with left:
    clicked("scatter")
    clicked("products")
with right:
    clicked("grid")
    clicked("long")
