"""The picture that a model saw, beside the map of a head."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, UInt8

from attnviz.base.formatting import visible
from attnviz.base.language import _
from attnviz.base.link import Link
from attnviz.figures.chart_spec import PicturePatch, PictureRow
from attnviz.figures.patch_picture import patch_picture
from attnviz.inputs import PatchGrid
from attnviz.page.blocks import Figure
from attnviz.page.long_map_state import LongMapState
from attnviz.page.selected_maps import HeadMap, row_weights
from attnviz.page.selection import Selection
from attnviz.sources import Model

HEIGHT = 420  # pixels


def picture_of_model(state: LongMapState, head_map: HeadMap, row: int | None, link: str) -> Figure | None:
    """Returns the picture with the patches that are queries or keys of a map of this `link`; of a map in fewer cells
    with the weights of the pinned row. None of another source, and where it is not known which token is which patch."""
    source, selection, grid = state.source, state.selection, head_map.inputs.grid
    if grid is None or not isinstance(source, Model) or (colors := model_colors(source)) is None:
        return None
    if head_map.downsampled is None:
        patches = _patches(head_map, grid, colors.shape[:2], head_map.queries, head_map.keys)
        return Figure(patch_picture(colors, patches, link=link), "picture", HEIGHT, grows=True)
    if row is None:
        return None
    patches = _patches(head_map, grid, colors.shape[:2], selection.queries, selection.keys)
    weights = row_weights(selection, head_map, row).float().numpy()
    own = np.array([weights[patch.column] if patch.column >= 0 else np.nan for patch in patches], np.float32)
    of_row = PictureRow(visible(selection.shown_query(row)), own, head_map.sentences.allowed)

    def opens(patch: int, _column: int) -> Link | None:
        query = patches[patch].row
        return None if query < 0 else state.row_link(query)

    return Figure(patch_picture(colors, patches, link=link, row=of_row), "picture", HEIGHT, opens, grows=True)


def patches_of_heads(selection: Selection, row: int) -> Float[np.ndarray, "heads rows columns"] | None:
    """Returns what one of the shown queries gives to each patch, in all heads of the mosaic, layer by layer; None where
    the keys are not the patches of one image."""
    grid, query = selection.inputs.key_grid, selection.queries[row]
    if grid is None:
        return None
    positions = [*grid.positions]
    weights = [selection.layers[i].maps(rows=[query])[:, 0, positions] for i in selection.mosaic_layers]
    return torch.cat(weights).reshape(-1, grid.rows, grid.columns).numpy()


def model_colors(source: Model) -> UInt8[np.ndarray, "height width 3"] | None:
    """Returns the picture of a source as its model saw it; None of a model that reads no pictures."""
    model = source.model()
    if model.image_inputs is None or "picture" not in model.modality:
        return None
    pixels = model.image_inputs.shown(source.example[2])
    colors = (255 * pixels).round().byte().permute(1, 2, 0).numpy()
    return np.repeat(colors, 3, axis=2) if colors.shape[2] == 1 else colors


def _patches(
    head_map: HeadMap, grid: PatchGrid, size: tuple[int, int], queries: Sequence[int], keys: Sequence[int]
) -> list[PicturePatch]:
    """Returns the patches in pixels of a picture of this size, height and width, with their places among the positions
    of queries and keys."""
    inputs, (height, width) = head_map.inputs, size
    of_queries, of_keys = (
        dict(enumerate(each.positions)) if each is not None else {} for each in (inputs.query_grid, inputs.key_grid)
    )
    rows, columns = ({position: i for i, position in enumerate(axis)} for axis in (queries, keys))
    patches = []
    for patch in range(grid.rows * grid.columns):
        row, column = divmod(patch, grid.columns)
        box = (
            column * width / grid.columns, row * height / grid.rows,
            (column + 1) * width / grid.columns, (row + 1) * height / grid.rows,
        )  # fmt: skip
        name = _("the patch in row {row}, column {column}", row=row, column=column)
        places = rows.get(of_queries.get(patch, -1), -1), columns.get(of_keys.get(patch, -1), -1)
        patches.append(PicturePatch(box, name, *places))
    return patches
