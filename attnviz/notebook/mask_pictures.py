"""The charts of a layer under one mask, and under others: each of these stands as a layer, with an image."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attnviz.base.cached_property import cached_property
from attnviz.figures.mask_image import mask_image
from attnviz.layer import Layer, LayerId
from attnviz.mechanism import Mechanism
from attnviz.notebook.pictures import Pictures
from attnviz.state.parts import title


class MaskPictures(Pictures):
    """The maps of a layer under mechanism A, under each of the others as B, and their differences.

    Raises ValueError if a map is too large to be compared.
    """

    def __init__(self, layer: Layer, before: Mechanism, others: Sequence[Mechanism], key: str) -> None:
        self.before, self.others = before, tuple(others)
        named = [replace(layer, id=LayerId(str(after.mask)), mechanism=after) for after in others]
        super().__init__([replace(each, mechanism=before) for each in named], named, key=key)

    @cached_property
    def overview(self) -> list[dict[str, Any]]:
        """The overview of the layers, each with its mask as `mask`: a title, an image, and both masks in a sentence."""
        return [
            each
            | {
                "mask": {
                    "title": title(type(after.mask)),
                    "image": mask_image(after.mask),
                    "sentence": f"A: {self.before.mask.describe()} B: {after.mask.describe()}",
                }
            }
            for each, after in zip(super().overview, self.others, strict=True)
        ]
