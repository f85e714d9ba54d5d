"""The picture that a model saw, beside the map of a head."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Float

from attnviz.analysis.head_maps import Aggregate, HeadChoice, Rollout
from attnviz.base.formatting import visible
from attnviz.base.language import N_, _
from attnviz.base.link import Link
from attnviz.figures import Chart
from attnviz.figures.chart_spec import PicturePatch, PictureRow, PictureSpec
from attnviz.figures.patch_picture import LOOKS_AT, patch_picture
from attnviz.figures.sentences import CELL_SENTENCES
from attnviz.inputs import Box, MapAxes
from attnviz.models.input_image import InputImage
from attnviz.page.blocks import Figure
from attnviz.page.long_map_state import LongMapState
from attnviz.page.result_cache import result_cache
from attnviz.page.selected_maps import HeadMap, row_weights
from attnviz.page.selection import Selection
from attnviz.sources.model import ModelSource

HEIGHT = 420  # pixels
DECODING = 3  # steps that a byte of an upload takes about
ROW_SENTENCES: dict[HeadChoice, str] = {  # of several heads as one; weights of different heads have no sum
    Aggregate.MEAN: N_("{query} gives the image {share}, on average over heads; the line is around half of that."),
    Aggregate.MAXIMUM: N_("The line is around half of the largest weights of {query} in any head."),
    Rollout.ROLLOUT: N_("Rollout gives the image a share of {share} in {query}; the line is around half of that."),
}


def picture_of_model(state: LongMapState, head_map: HeadMap, row: int | None, link: str) -> Figure | None:
    """Returns the picture with the patches that are queries or keys of a map of this `link`; of a map in fewer cells
    with the weights of the pinned row. None of another source, and where it is not known which token is which patch."""
    source, selection = state.source, state.selection
    if not isinstance(source, ModelSource) or not head_map.inputs.grids:
        return None
    image = model_image(source)
    if image is None:
        return None
    draw = partial(
        patch_picture, image.colors, link=link, sentence=ROW_SENTENCES.get(selection.head, LOOKS_AT), note=image.note
    )
    if head_map.downsampled is None:
        patches = _patches(head_map.inputs, image, head_map.queries, head_map.keys)
        if not patches:
            return None
        return Figure(draw(patches), "picture", HEIGHT, grows=True)
    if row is None or not (patches := _patches(head_map.inputs, image, selection.queries, selection.keys)):
        return None
    weights = row_weights(selection, head_map, row).float().numpy()
    own = np.array([weights[patch.column] if patch.column >= 0 else np.nan for patch in patches], np.float32)
    of_row = PictureRow(visible(selection.shown_query(row)), own, head_map.sentences.allowed)

    def opens(patch: int, _column: int) -> Link | None:
        query = patches[patch].row
        return None if query < 0 else state.row_link(query)

    return Figure(draw(patches, row=of_row), "picture", HEIGHT, opens, grows=True)


def row_picture(
    image: InputImage,
    inputs: MapAxes,
    query: int,
    weights: Float[np.ndarray, " keys"],
    region: Sequence[int] = (),
    largest: float | None = None,
    key: int | None = None,
) -> Chart[PictureSpec]:
    """Draws a picture under the weights of one query at all keys, with a region of its patches crossed out, which are
    counted row by row; the patch with the `largest` weight is not darkened, and those of the query and of a `key` have
    a frame."""
    patches = _patches(inputs, image, range(inputs.queries), range(inputs.keys))
    own = np.array([weights[patch.column] if patch.column >= 0 else np.nan for patch in patches], np.float32)
    name = next((patch.name for patch in patches if patch.row == query), visible(inputs.query_tokens[query]))
    marked = tuple(i for i, patch in enumerate(patches) if patch.row == query or patch.column == key)
    row = PictureRow(name, own, CELL_SENTENCES.allowed, largest, marked)
    return patch_picture(image.colors, patches, row=row, region=region)


def patches_of_heads(selection: Selection, row: int) -> Float[np.ndarray, "heads rows columns"] | None:
    """Returns what one of the shown queries gives to each patch, in all heads of the mosaic, layer by layer; None where
    the keys are not the patches of one image."""
    query, grids = selection.queries[row], selection.inputs.key_grids
    if len(grids) != 1:
        return None
    [grid] = grids
    positions = [*grid.positions]
    weights = [selection.layers[i].maps(rows=[query])[:, 0, positions] for i in selection.mosaic_layers]
    return torch.cat(weights).reshape(-1, grid.rows, grid.columns).numpy()


def model_image(source: ModelSource) -> InputImage | None:
    """Returns the picture of a source as its model saw it; None of a model that reads no pictures, or of unknown size.
    Raises ValueError for an upload that cannot be read."""
    key = source.name, source.version, source.image, source.drawing
    work = DECODING * len(source.image.data) if source.image else 0
    return result_cache().once(lambda: source.model().input_image(source.picture), "input image", *key, work=work)


def _patches(inputs: MapAxes, image: InputImage, queries: Sequence[int], keys: Sequence[int]) -> list[PicturePatch]:
    """Returns the patches of a picture with their places among the positions of queries and keys."""
    places: dict[Box, dict[str, int]] = {}
    names: dict[Box, str] = {}
    for axis, positions, grids in (("row", queries, inputs.query_grids), ("column", keys, inputs.key_grids)):
        shown = {position: i for i, position in enumerate(positions)}
        for grid in grids:
            for patch, position in enumerate(grid.positions):
                box = image.place(grid, patch)
                if box is None:
                    break
                places.setdefault(box, {"row": -1, "column": -1})[axis] = shown.get(position, -1)
                left, top, right, bottom = grid.place(patch)
                row, column = round(top / (bottom - top)), round(left / (right - left))
                names[box] = _("the patch in row {row}, column {column}", row=row, column=column)
                if len(image.tiles) > 1:
                    number = grid.image if grid.tile is None else grid.tile
                    names[box] = _("{patch} of tile {number}", patch=names[box], number=number)
    return [PicturePatch(box, names[box], **place) for box, place in places.items()]
