"""Masks of the catalogue with parameters that Hypothesis draws."""

from dataclasses import fields

from hypothesis import strategies as st

from attnviz.masks import Causal, Mask, Sinks, SlidingWindow


def masks_of_kind(kind: type[Mask], keys: int | None = None) -> st.SearchStrategy[Mask]:
    """Masks of a class, with parameters within the limits of its fields; instead of what it refuses, its default.

    Patterns of padding fit one number of keys, and are drawn where it is given."""
    values = {}
    for field in fields(kind):
        least = field.metadata.get("min", -4)
        small = st.integers(least, min(field.metadata.get("max", 4), least + 8))
        if field.default is None:
            continue
        if isinstance(field.default, str):
            values[field.name] = st.sampled_from(field.type.__args__)
        elif isinstance(field.default, Mask):
            values[field.name] = st.sampled_from([Causal(), SlidingWindow(2), SlidingWindow(2) | Sinks(1)])
        elif "bool" in str(field.type):
            patterns = st.lists(st.booleans(), min_size=keys, max_size=keys).map(tuple) if keys else st.nothing()
            values[field.name] = small | patterns
        elif isinstance(field.default, tuple):
            values[field.name] = st.lists(small, max_size=5).map(tuple) | st.just(field.default)
        else:
            values[field.name] = small

    def made(given: dict) -> Mask:
        try:
            return kind(**given)
        except ValueError:
            return kind()

    return st.fixed_dictionaries(values).map(made)
