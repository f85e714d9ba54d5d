"""How numbers and sizes are written."""

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.base.formatting import byte_size, fixed, percent, quoted, short_repr, significant


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0%"), (0.126, "13%"), (0.99, "99%"), (0.9969, "99.6%"), (0.9999, "99.9%"), (1.0, "100%")]
)
def test_only_the_whole_is_100_percent(share: float, text: str) -> None:
    assert percent(share, 2) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1000, "0.977 KB"), (1 << 20, "1 MB"), (5 << 40, "5.0 TB")]
)
def test_sizes_have_three_digits_at_most(count: int, text: str) -> None:
    assert byte_size(count) == text


def test_zero_has_no_sign_and_infinity_its_own() -> None:
    assert [fixed(-0.001), fixed(-math.inf), fixed(math.inf)] == ["0.00", "−∞", "∞"]
    assert [significant(-0.0), significant(-math.inf), significant(-1e-9)] == ["0", "−∞", "−1e−09"]


class Broken:
    """An object whose every method fails."""

    def __repr__(self) -> str:
        raise KeyError

    def __len__(self) -> int:
        raise RecursionError


def nested(kind: Callable[[object], object], depth: int) -> object:
    value: object = ()
    for _ in range(depth):
        value = kind(value)
    return value


ITSELF: list[object] = []
ITSELF.append(ITSELF)
# A class with the name of another, for which its own methods are not made.
IMPOSTOR = type("dict", (Broken,), {})()
HOSTILE = [
    *(nested(kind, 100_000) for kind in (lambda x: [x], lambda x: (x,), lambda x: {"a": x}, lambda x: {1: [x]})),
    *(1 << 1_000_000, -(10**5_000), [10**5_000], {10**5_000: 10**5_000}, ITSELF, Broken(), IMPOSTOR, [Broken()]),
    *(
        "\ud800" * 50,
        ["\ud800"],
        "a" * 10_000_000,
        b"\xff" * 1_000_000,
        math.nan,
        None,
        range(10**30),
        object,
        iter(()),
    ),
    *({"\u202e“”\n\x00": {"”"}}, KeyError("a\nb"), [[]] * 1_000_000, dict.fromkeys(range(100_000))),
]


@pytest.mark.parametrize("value", HOSTILE, ids=map(str, range(len(HOSTILE))))
def test_any_value_is_a_short_text(value: object) -> None:
    for text in (short_repr(value), quoted(value), short_repr(value, 8), quoted(value, 8)):
        assert len(text) <= 42
        assert text.isprintable()
        text.encode()
    assert not {*quoted(value)[1:-1]} & {*"“”"}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    )
)
def test_a_short_value_is_written_as_python_writes_it(value: object) -> None:
    written = repr(value)
    if len(written) <= 40 and written.isprintable() and written.count("[") + written.count("{") <= 4:
        assert sorted(short_repr(value)) == sorted(written)  # the order of names aside
