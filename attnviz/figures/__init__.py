"""Arrays to plotly figures: no computation, no Streamlit."""

from attnviz.figures.curves import curves
from attnviz.figures.heatmap import heatmap
from attnviz.figures.lines import lines
from attnviz.figures.mosaic import head_at, mosaic
from attnviz.figures.sentences import label, sentence
from attnviz.figures.themes import THEMES, themed

__all__ = ["THEMES", "curves", "head_at", "heatmap", "label", "lines", "mosaic", "sentence", "themed"]
