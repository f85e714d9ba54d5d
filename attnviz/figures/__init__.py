"""Figures: functions from arrays to plotly figures, without Streamlit."""

from attnviz.figures.chart_spec import Chart
from attnviz.figures.curves import curves
from attnviz.figures.downsampled_map import downsampled_map
from attnviz.figures.head_grid import head_grid
from attnviz.figures.heatmap import heatmap
from attnviz.figures.mosaic import mosaic
from attnviz.figures.products import products
from attnviz.figures.scatter import scatter
from attnviz.figures.sentences import cell_sentence, label
from attnviz.figures.themes import THEMES, themed

__all__ = [
    "THEMES",
    "Chart",
    "cell_sentence",
    "curves",
    "downsampled_map",
    "head_grid",
    "heatmap",
    "label",
    "mosaic",
    "products",
    "scatter",
    "themed",
]
