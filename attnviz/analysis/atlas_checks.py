"""What the numbers of an atlas and of its parts must be, whoever has saved them."""

from collections.abc import Iterable, Mapping

from torch import Tensor

from attnviz.analysis.atlas_examples import Examples


def has_shapes(made: object, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Returns whether the attributes of these names have these shapes."""
    return all(tuple(getattr(made, name).shape) == shape for name, shape in shapes.items())


def are_sums(*numbers: Tensor) -> bool:
    """Returns whether all numbers are finite and at least 0, as counts and sums of weights and norms are."""
    return all(bool((one.isfinite() & (one >= 0)).all()) for one in numbers)


def are_examples(examples: Mapping[str, object], kinds: Iterable[str], rows: int) -> bool:
    """Returns whether there are examples of these kinds alone, of so many heads or MLPs, which can have their
    numbers."""
    return {*examples} == {*kinds} and all(
        isinstance(one, Examples) and one.has_sizes(rows) and one.is_possible() for one in examples.values()
    )
