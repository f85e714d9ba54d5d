"""What a vision model gives where a region of its image is hidden from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from attnviz.attribution.float32_weights import in_float32
from attnviz.base.language import value_error
from attnviz.inputs import Inputs, PatchGrid
from attnviz.layer import Layer
from attnviz.masks import And, Compare
from attnviz.masks.terms import Lookup, Number, Variable
from attnviz.mechanism import Mechanism
from attnviz.trace import Trace
from attnviz.tracing import capture, model_lock
from attnviz.tracing.changed_run import attended
from attnviz.tracing.forward_arguments import example_arguments

HowHidden: TypeAlias = Literal["gray", "masked"]


@dataclass(frozen=True, eq=False)
class HiddenRegion:
    """What a vision model returns of an image, and its layers, before and after a region of it is hidden."""

    before: Any
    after: Any
    layers_before: Trace
    layers_after: Trace
    grid: PatchGrid
    patches: tuple[int, ...]  # that are hidden, counted row by row
    pixels: Float[Tensor, "1 channels height width"]  # that the model sees after

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of the hidden patches among the keys."""
        return tuple(self.grid.positions[patch] for patch in self.patches)

    def weights(self, layer: int, head: int, query: int) -> Float[Tensor, "2 keys"]:
        """Returns the weights of a query of a head before and after; those of keys that are masked are 0."""
        both = self.layers_before[layer], self.layers_after[layer]
        return torch.cat([one.maps(heads=[head], rows=[query])[0] for one in both]).nan_to_num(0)

    @property
    def has_class_token(self) -> bool:
        """Whether the first token is none of the patches, such as [CLS]."""
        return 0 not in self.grid.positions

    @property
    def cosine(self) -> float:
        """The cosine of the final vectors of the first token before and after; if that one is a patch,
        of the means of all tokens. Raises ValueError if the model does not return final vectors."""
        vectors = []
        for output in (self.before, self.after):
            states = getattr(output, "last_hidden_state", None)
            if isinstance(states, Tensor) and states.ndim == 4:  # (images, width, rows, columns), as of SegFormer
                states = states.flatten(2).mT
            if not isinstance(states, Tensor) or states.ndim != 3:
                raise value_error("This model returns no final vectors of its tokens. Compare what it returns instead.")
            vectors.append(states[0, 0] if self.has_class_token else states[0].mean(0))
        return float(cosine_similarity(vectors[0].double(), vectors[1].double(), dim=0))


@torch.no_grad()
def hide_region(
    model: nn.Module,
    batch: Mapping[str, Any],
    region: ArrayLike,
    *,
    how: HowHidden = "gray",
    color: float | Sequence[float] = 0.0,
    whole: HiddenRegion | None = None,
) -> HiddenRegion:
    """Returns what a vision model gives of an image, and what it gives where the patches of a region are hidden.

    The region is a matrix of the patches, (rows, columns), True where one is hidden. "gray": their pixels get a
    `color`, in the numbers of `pixel_values`, (1, channels, height, width): 0 is the mean color by which an image
    processor normalizes. "masked": no query attends to them in any layer, as if their scores were minus infinity.
    Nothing but a mean over all tokens reads then what becomes of these patches themselves. `whole` is a result of the
    same image, whose run before is taken. A model in half precision is computed in float32.

    Raises ValueError if it is not known which token is which patch, if the region has another shape, and, for "masked",
    where the patches are not the keys of each layer or a layer cannot be changed.
    """
    if how not in ("gray", "masked"):
        raise value_error(
            "{name} must be one of {options}; it is {value}.", name="how", options="gray, masked", value=how
        )
    exact = in_float32(model)
    arguments = dict(example_arguments(exact, batch).kwargs)
    pixels = arguments.get("pixel_values")
    if not isinstance(pixels, Tensor) or pixels.ndim != 4 or len(pixels) != 1:
        raise value_error("One image is expected as pixel_values, (1, channels, height, width).")
    before, layers = (whole.before, whole.layers_before) if whole else _run(exact, arguments)
    grid = image_grid(layers)
    cells = np.asarray(region)
    if cells.shape != (grid.rows, grid.columns):
        raise value_error(
            "The region has the shape {shape}. Give it a row and a column for each of the {rows} × {columns} patches "
            "of this image.",
            shape=cells.shape,
            rows=grid.rows,
            columns=grid.columns,
        )
    patches = tuple(np.flatnonzero(cells).tolist())
    if not patches:
        after, changed = before, layers
    elif how == "gray":
        pixels = _painted(pixels, grid, patches, color)
        after, changed = _run(exact, arguments | {"pixel_values": pixels})
    else:
        after, changed = _masked(exact, arguments, layers, grid, patches)
    return HiddenRegion(before, after, layers, changed, grid, patches, pixels)


def image_grid(layers: Sequence[Layer]) -> PatchGrid:
    """Returns the grid of the patches of the only image that the first layer sees. Raises ValueError if it is not
    known."""
    grids = layers[0].inputs.grids if layers else ()
    if len(grids) != 1 or grids[0].tile is not None:
        raise value_error(
            "It is not known which token of this model is which patch of one image, so that no region can be hidden."
        )
    return grids[0]


def _run(model: nn.Module, arguments: dict[str, Any], **options: Any) -> tuple[Any, Trace]:
    """Returns what a model returns, and its layers."""
    returned: list[Any] = []
    with model_lock(model), model.register_forward_hook(lambda module, args, result: returned.append(result)):
        layers = capture(model, arguments, **options)
    return returned[-1], layers


def _painted(
    pixels: Float[Tensor, "1 channels height width"],
    grid: PatchGrid,
    patches: Sequence[int],
    color: float | Sequence[float],
) -> Float[Tensor, "1 channels height width"]:
    height, width = pixels.shape[2:]
    painted = pixels.clone()
    paint = torch.as_tensor(color, dtype=pixels.dtype, device=pixels.device).reshape(-1, 1, 1)
    for left, top, right, bottom in map(grid.place, patches):
        rows, columns = (slice(round(a * n), round(b * n)) for a, b, n in ((top, bottom, height), (left, right, width)))
        painted[0, :, rows, columns] = paint
    return painted


def _masked(
    model: nn.Module, arguments: dict[str, Any], layers: Trace, grid: PatchGrid, patches: Sequence[int]
) -> tuple[Any, Trace]:
    """Returns what a model returns, and its layers, where no query may attend to patches."""
    hidden = {grid.positions[patch] for patch in patches}
    for layer in layers:
        if layer.locked or layer.inputs.key_grids != (grid,):
            raise value_error(
                "The patches of the image are not the keys of {name}, or its mask cannot be changed. Hide them by gray "
                "pixels.",
                name=layer.name,
            )
    made: list[Mechanism] = []

    def intervene(layer: int, inputs: Inputs, mechanism: Mechanism) -> tuple[Mechanism, Tensor]:
        is_visible = Lookup(tuple(int(key not in hidden) for key in range(inputs.keys)), Variable("k"))
        made.append(replace(mechanism, mask=And(mechanism.mask, Compare((is_visible, Number(1)), ("==",)))))
        return made[-1], attended(made[-1], inputs)

    after, changed = _run(model, arguments, intervene=intervene)
    missing = [*layers.missing, *changed.missing]
    if missing or [layer.mechanism for layer in changed] != made:
        raise value_error(
            "A layer of this model cannot be changed, so that it would see what is hidden. {reason} Hide the region by "
            "gray pixels.",
            reason=" ".join(missing[:1]),
        )
    return after, changed
