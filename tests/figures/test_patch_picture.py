"""A picture as a model saw it."""

import base64
import io

import numpy as np
from PIL import Image

from attnviz.figures.chart_spec import PicturePatch
from attnviz.figures.patch_picture import LONGEST_SIDE, patch_picture

PATCH = PicturePatch((0.0, 0.0, 4.0, 4.0), "the patch in row 0, column 0", row=1, column=1)


def sent(colors: np.ndarray) -> Image.Image:
    [image] = patch_picture(colors, [PATCH], link="head").figure.layout.images
    return Image.open(io.BytesIO(base64.b64decode(image.source.split(",")[1])))


def test_the_picture_is_sent_as_it_is() -> None:
    colors = np.random.default_rng(0).integers(0, 256, (30, 50, 3), np.uint8)
    np.testing.assert_array_equal(np.asarray(sent(colors)), colors)


def test_a_large_picture_is_sent_smaller_on_the_same_axes() -> None:
    colors = np.zeros((900, 1800, 3), np.uint8)
    assert sent(colors).size == (LONGEST_SIDE, LONGEST_SIDE // 2)
    layout = patch_picture(colors, [PATCH], link="head").figure.layout
    assert (layout.xaxis.range, layout.yaxis.range) == ((0, 1800), (900, 0))
    [image] = layout.images
    assert (image.sizex, image.sizey, image.x, image.y) == (1800, 900, 0, 0)


def test_its_patches_are_those_of_the_map() -> None:
    spec = patch_picture(np.zeros((4, 8, 3), np.uint8), [PATCH], link="head").spec
    assert (spec.patches, spec.link, spec.aspect) == ((PATCH,), "head", 0.5)
    assert "{share}" in spec.row_sentence
    assert "{key}" in spec.turned_sentence
