"""Figures that are no heatmap of a head, through the one chart: a page for test_chart.py."""

import numpy as np
import plotly.graph_objects as go

from attnviz.figures.chart_spec import Chart, PlainSpec
from attnviz.ui.chart import chart

bars = go.Figure(go.Bar(x=["a", "b", "c"], y=np.array([1, 3, 2])))
lines = go.Figure([go.Scatter(y=np.arange(4.0)), go.Scatter(y=np.arange(4)[::-1])])
lines.update_layout(xaxis_tickvals=[0, 1, 2, 3], annotations=[{"x": 1, "y": 1, "text": "here"}])
lines.add_shape(type="line", x0=0, x1=1, y0=0, y1=1)
for key, figure in (("bars", bars), ("lines", lines)):
    chart(Chart(figure, PlainSpec()), key, label=key, name=key, description="", height=300)
