"""Sources of layers: dataclasses of settings with `layers() -> Sequence[Layer]`."""

from attnviz.sources.pretrained import Pretrained
from attnviz.sources.source import Source
from attnviz.sources.toy import Toy
from attnviz.sources.trace_folder import TraceFolder
from attnviz.sources.upload import Upload, from_arrays

__all__ = ["SOURCES", "Pretrained", "Source", "Toy", "TraceFolder", "Upload", "from_arrays"]

SOURCES = (Pretrained, Toy, Upload, TraceFolder)  # the order of the menu
