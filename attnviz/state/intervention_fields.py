"""The fields of what can be changed in a running model."""

from collections.abc import Mapping, Sequence
from typing import Any

from attnviz.language import N_
from attnviz.masks import Mask
from attnviz.models.interventions import SCORES
from attnviz.normalizers import NORMALIZERS, Normalizer
from attnviz.state.fields import PartField
from attnviz.state.parts import MASK_MENU, by_title

PARTS = ("mask", "score", "normalizer")  # the fields of an Intervention that replace those of its layers
ABLATION_HELP = N_(
    "An ablated head sees nothing, and adds nothing to the output of its layer, which may mislead: *Effects* compares "
    "that with its mean over other texts."
)


def part_fields(
    prefix: str, mask: Mask, normalizer: Normalizer, **options: Any
) -> tuple[PartField[Any], PartField[Any], PartField[Any]]:
    """Returns the fields of PARTS, whose link parameters begin with `prefix`. They open with the mask and the
    normalizer that all layers have, and with None, for the own score of each layer."""

    def field(label: str, part: str, menu: Mapping[str, type], opening: object) -> PartField[Any]:
        return PartField(label, menu, lambda _state: opening, parameter=f"{prefix}-{part}", **options)

    mask_field = field(N_("Mask"), "mask", MASK_MENU, mask)
    score_field = field(N_("Score"), "score", by_title(SCORES), None)
    return mask_field, score_field, field(N_("Normalizer"), "normalizer", by_title(NORMALIZERS), normalizer)


def changed_parts(fields: Sequence[PartField[Any]], values: Sequence[Any]) -> dict[str, Any]:
    """Returns the values that are not those with which the fields of PARTS open, by their names."""
    named = zip(PARTS, fields, values, strict=True)
    return {part: value for part, field, value in named if value != field.opening(None)}
