"""Masks inside masks that shift positions: whether their terms can be computed everywhere."""

from dataclasses import fields

from attnviz.base.formatting import grouped
from attnviz.base.language import _, value_error
from attnviz.masks.mask import Combined, Compare, Mask, Not, Shifted
from attnviz.masks.terms import POSITION_BOUNDS, Bounds

NESTED = 3  # documents in documents: written down, a rule doubles with each


def check_nesting(mask: Mask, name: str) -> None:
    """Raises ValueError if a mask inside the mask of this name cannot be computed everywhere, because positions are
    shifted in it, or if too many of these masks are nested."""
    todo: list[tuple[Mask, int, Bounds, Bounds]] = [(mask, 0, POSITION_BOUNDS["q"], POSITION_BOUNDS["k"])]
    while todo:
        one, nested, q, k = todo.pop()
        if isinstance(one, Compare):
            try:
                for term in one.terms:
                    term.bounds({**POSITION_BOUNDS, "q": q, "k": k})
            except ValueError as error:
                moved = _(
                    "Inside {mask}, q goes from {first_q} to {last_q} and k from {first_k} to {last_k}.",
                    mask=name,
                    first_q=grouped(q[0]),
                    last_q=grouped(q[1]),
                    first_k=grouped(k[0]),
                    last_k=grouped(k[1]),
                )
                raise ValueError(f"{error} {moved}") from None
        if isinstance(one, Shifted):
            q = (q[0] + one.by, q[1] + one.by)
        elif not isinstance(one, Combined | Not):
            # Others may count from wherever one of their parts begins.
            q, k = ((least - POSITION_BOUNDS["q"][1], greatest) for least, greatest in (q, k))
            nested += 1
        parts = [getattr(one, field.name) for field in fields(one)]  # type: ignore[arg-type]
        inside = [part for part in parts if isinstance(part, Mask)]
        if inside and nested > NESTED:
            raise value_error(
                "More than {most} {mask} are nested here. Leave some out.",
                most=NESTED,
                mask=name,
            )
        todo += [(part, nested, q, k) for part in inside]
