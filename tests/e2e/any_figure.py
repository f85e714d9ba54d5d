"""Figures that are no heatmap of a head, through the one chart: a page for test_chart.py."""

import numpy as np
import plotly.graph_objects as go

from attnviz.figures.chart_spec import Chart, PlainSpec
from attnviz.ui.chart import chart

bars = go.Figure(go.Bar(x=["a", "b", "c"], y=np.array([1, 3, 2])))
lines = go.Figure([go.Scatter(y=np.arange(4.0)), go.Scatter(y=np.arange(4)[::-1])])
for key, figure in (("bars", bars), ("lines", lines)):
    chart(Chart(figure, PlainSpec()), key, label=key, name=key, description="", height=300)
