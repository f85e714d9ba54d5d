"""Arrays to plotly figures: no computation, no Streamlit."""

from attnviz.figures.heatmap import heatmap
from attnviz.figures.mosaic import head_at, mosaic
from attnviz.figures.sentences import label, sentence
from attnviz.figures.themes import THEMES, themed

__all__ = ["THEMES", "head_at", "heatmap", "label", "mosaic", "sentence", "themed"]
