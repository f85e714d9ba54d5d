"""Any Hugging Face model, as a source of layers: found, loaded safely, kept within bounds, and given something to read.

`loading` makes a model out of a folder, which `folder` and `config` look through first; `hub` brings the folder of an
id, `shelf` keeps models in memory, `reading` and `picture` turn what a person gives into what a model takes, and
`model` is what all of it makes.
"""

from attnviz.models.model import Model

__all__ = ["Model"]
