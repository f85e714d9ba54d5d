"""Sources of layers: dataclasses of settings with `layers() -> Sequence[Layer]`."""

from attnviz.sources.model import Model
from attnviz.sources.source import Source
from attnviz.sources.toy import Toy
from attnviz.sources.trace_folder import TraceFolder
from attnviz.sources.upload import Upload, from_arrays

__all__ = ["SOURCES", "Model", "Source", "Toy", "TraceFolder", "Upload", "from_arrays"]

SOURCES = (Model, Toy, Upload, TraceFolder)  # the order of the menu
