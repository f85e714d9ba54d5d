import operator
import pickle
import re
import sys
from copy import deepcopy
from dataclasses import fields

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_mask

from attnviz.base.language import language
from attnviz.masks import MASKS, Causal, Compare, Documents, Mask, Padding, Shifted, SlidingWindow
from attnviz.masks.grid import Grid
from attnviz.masks.mask import And, Not, Or, choice_word, rule
from attnviz.masks.mask_parameters import names
from attnviz.masks.parser import DEEPEST, LONGEST_TEXT, POSITIONS, MaskError, parse
from attnviz.masks.synonyms import SYNONYMS
from attnviz.masks.terms import Arithmetic, Function, Lookup, Number, Variable
from tests.support.mask_strategies import masks_of_kind

# beartype looks at a random item of a tuple, which Hypothesis would rather draw itself.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

QUERIES, KEYS = 6, 7


def cells(mask, queries=QUERIES, keys=KEYS, head=0):
    """What a mask says of every cell, asked with positions that broadcast."""
    q, k = torch.arange(queries)[:, None], torch.arange(keys)
    return mask.bind(queries, keys, 1)(torch.tensor(0), torch.tensor(head), q, k).expand(queries, keys)


def attempt(text):
    try:
        return parse(text)
    except MaskError as error:
        return error


# What a text means, against a text with all its parentheses.
PRECEDENCE = [
    ("causal & q - k < 4 | k < 2", "((causal) & ((q - k) < 4)) | (k < 2)"),
    ("~k < 2 & full", "(~(k < 2)) & full"),
    ("not k < 2 and full or causal", "((~(k < 2)) & full) | causal"),
    ("not not causal", "~(~causal)"),
    ("causal and q - k < 4 or k < 2", "(causal & ((q - k) < 4)) | (k < 2)"),
    ("q - k + 1 < 0", "((q - k) + 1) < 0"),
    ("q * 2 // 3 % 4 == k", "(((q * 2) // 3) % 4) == k"),
    ("q % 2 + k % 3 == 1", "((q % 2) + (k % 3)) == 1"),
    ("-q // 2 < 0", "((-q) // 2) < 0"),
    ("q - k<4&k<=q", "((q - k) < 4) & (k <= q)"),
    ("k ≤ q ∧ q − k < 4", "(k <= q) & ((q - k) < 4)"),
    ("¬k ≥ 2 ∨ q ≠ k", "(~(k >= 2)) | (q != k)"),
    ("min(q, k, 3) < 2", "min(min(q, k), 3) < 2"),
    ("0 <= q - k < 4", "(0) <= (q - k) < (4)"),
    ("\tcausal\n  & full ", "causal & full"),
    ("sliding_window(size=4)", "sliding_window(4)"),
    ("sliding_window(counts=steps_back, size=3)", "sliding_window(3, steps_back)"),
    ("causal()", "causal"),
    ("documents([3, 4], inner=causal | full)", "documents([3, 4], (causal) | (full))"),
]

# Masks of FlexAttention as people write them.
FUNCTIONS = [
    "lambda b, h, q, kv: q >= kv",
    "lambda b,h,i,j:(i>=j)&(i-j<4)",
    "causal = lambda batch, head, row, col: row >= col",
    "lambda b, h, kv, q: kv >= q",
    "lambda b, h, q, k: (q >= k) & ((q - k < 4) | (k < 2)) & ~(abs(q - k) == 1)",
    "lambda b, h, q, k: (q // 2 == k // 2) | ((q - k) % 2 * (h + 1) * -1 <= -2 * q)",
    "lambda b, h, n_q, n_k: ~((n_q + 1) % 3 < n_k)",
    "def mask_mod(b, h, q_idx, kv_idx):\n    return (q_idx >= kv_idx) | (h == 1)\n",
    'def f(b, h, q, kv):\n    """Causal: "never" after q; # (no comment)."""\n    return q >= kv\n',
    "def f(b, h, q, kv):\n    r'''A \\d\n    \\''' = 3\n    '''\n    'more'; return q >= kv",
    "# A window (of 4\ndef f(b, h, q, kv):  # b: batch\n    # lambda\n\n    return q - kv < 4  # and 'no more\n# end",
    "def f(b: int, h: 'Tensor', q: dict[str, int], kv: int | None,) -> dict[str, 'x: y']: return q >= kv",
    "def f(\n    b,\n    h,  # head\n    q,\n    kv,\n) -> bool:\n    return (\n        q\n        >= kv\n    )",
    "def f(b, h, q, kv):\n    near = q - kv < 4\n    return near & (q >= kv)",
    "def f(b, h, q, kv):\n    d: int = q - kv\n    near: bool = d < 3; d = -d\n    return ~near | (d == -1)",
    "def f(b, h, q, kv):\n\tcausal = q >= kv\n\tband = causal & \\\n\t\t(kv > 1)\n\treturn ~causal | band",
    "def f(b, h, q, kv):\n    q = q - 2\n    return q >= kv",
    "WINDOW = 3\nh = 2\n\ndef f(b, h, q, kv):\n    return (q - kv < WINDOW) | (h == 1)",
    "def f(b, h, q, kv, window: int = 3, h0=1): return (q - kv < window) | (h == h0)",
    "width: int = 2\nf = lambda b, h, q, kv: (q - kv <\n    width)  # (\n",
    "def f(b, h, q, kv):\r\n    a = q - kv\r\n    return (a > -2) & (a < 3)\r\n",
]


@pytest.mark.parametrize("text", FUNCTIONS)
@pytest.mark.parametrize("head", [0, 1])
def test_a_function_of_comparisons_is_read_as_python_means_it(text, head):
    names = {"Tensor": torch.Tensor}
    exec(f"f = {text}" if text.startswith("lambda") else text, names)
    *_, function = names.values()
    theirs = create_mask(function, 1, 2, QUERIES, KEYS, device="cpu")[0, head]
    assert torch.equal(cells(parse(text), head=head), theirs)
    assert parse(str(parse(text))) == parse(text)


def test_every_synonym_names_what_there_is():
    for name, written in SYNONYMS.items():
        assert name not in names()
        words = re.split(r",? or |, | for | as in ", written)
        assert any(word in POSITIONS or word in names() or isinstance(attempt(word), Mask) for word in words), name


@pytest.mark.parametrize(("text", "whole"), PRECEDENCE)
def test_operators_bind_as_their_table_says(text, whole):
    assert parse(text) == parse(whole)


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("causal", Causal()),
        ("causal(bottom_right)", Causal("bottom right")),
        ("sliding_window(4)", SlidingWindow(4)),
        ("sliding_window(3, steps_back)", SlidingWindow(3, "steps back")),
        ("padding(3)", Padding(3)),
        ("padding([1, 0, 1])", Padding((True, False, True))),
        ("documents([3, 4], full | causal)", Documents((3, 4), parse("full") | Causal())),
        ("shifted(causal, -2)", Shifted(Causal(), -2)),
        ("grid(2, 3, 0x2a)", Grid.from_array([[1, 0, 1], [0, 1, 0]])),
        ("~causal & k < 2", ~Causal() & Compare((Variable("k"), Number(2)), ("<",))),
        (
            "0 <= -q - k < abs(k)",
            Compare(
                (
                    Number(0),
                    Arithmetic("-", Arithmetic("-", Number(0), Variable("q")), Variable("k")),
                    Function("abs", (Variable("k"),)),
                ),
                ("<=", "<"),
            ),
        ),
        ("q == -5", Compare((Variable("q"), Number(-5)), ("==",))),
    ],
)
def test_a_text_is_a_mask_and_the_mask_writes_it(text, mask):
    assert parse(text) == mask
    assert str(mask) == text


TERMS = st.recursive(
    st.builds(Number, st.integers(-9, 9)) | st.builds(Variable, st.sampled_from(["q", "k", "h", "n_q", "n_k"])),
    lambda inner: (
        st.builds(Arithmetic, st.sampled_from(["+", "-", "*"]), inner, inner)
        | st.builds(Arithmetic, st.sampled_from(["//", "%"]), inner, st.integers(1, 5).map(Number))
        | st.builds(lambda a: Function("abs", (a,)), inner)
        | st.builds(lambda name, a, b: Function(name, (a, b)), st.sampled_from(["min", "max"]), inner, inner)
    ),
    max_leaves=5,
)
SIGNS = st.sampled_from(["<", "<=", "==", "!=", ">=", ">"])
COMPARED = st.lists(st.tuples(TERMS, SIGNS), min_size=1, max_size=3).flatmap(
    lambda pairs: TERMS.map(
        lambda last: Compare((*(term for term, _ in pairs), last), tuple(sign for _, sign in pairs))
    )
)
GRIDS = st.lists(st.lists(st.booleans(), min_size=KEYS, max_size=KEYS), min_size=QUERIES, max_size=QUERIES)
ANY = st.recursive(
    st.one_of(COMPARED, GRIDS.map(Grid.from_array), *(masks_of_kind(kind, KEYS) for kind in MASKS)),
    lambda inner: (
        st.builds(operator.and_, inner, inner)
        | st.builds(operator.or_, inner, inner)
        | st.builds(operator.inv, inner)
        | st.builds(Shifted, inner, st.integers(-3, 3))
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("kind", MASKS, ids=lambda kind: kind.__name__)
def test_every_mask_is_written_and_read_with_all_its_parameters(kind):
    @settings(max_examples=15)
    @given(masks_of_kind(kind, KEYS))
    def round_trip(mask):
        read = parse(str(mask))
        assert read == mask
        assert hash(read) == hash(mask)
        assert str(read) == str(mask)

    round_trip()


@settings(max_examples=100)
@given(ANY)
def test_what_a_mask_writes_is_the_mask(mask):
    read = attempt(str(mask))
    if isinstance(read, MaskError):
        assert re.search("too large", str(read))  # the only thing that a strategy here may make and no text can say
        return
    assert read == mask
    assert torch.equal(cells(read), cells(mask))
    assert mask.condition()
    assert mask.describe().endswith(".")


@settings(max_examples=100)
@given(ANY)
def test_no_parentheses_are_written_without_need(mask):
    """Leaving out any pair changes the mask or makes it none; a comparison after ~ has a pair for the reader."""
    text = str(mask)
    for opening in [found.start() for found in re.finditer(r"(?<!\w)(?<!~)\(", text)]:
        depth, closing = 1, opening
        while depth:
            closing += 1
            depth += {"(": 1, ")": -1}.get(text[closing], 0)
        without = text[:opening] + text[opening + 1 : closing] + text[closing + 1 :]
        try:
            assert parse(without) != mask
        except MaskError:
            continue


@given(ANY, st.integers(0, 3))
def test_a_rule_written_down_says_the_same(mask, head):
    assert torch.equal(cells(rule(mask, QUERIES, KEYS), head=head), cells(mask, head=head))


# An oracle: texts grown together with what they mean in Python, on one cell.

OPERATORS = {
    "+": (5, operator.add),
    "-": (5, operator.sub),
    "*": (6, operator.mul),
    "//": (6, operator.floordiv),
    "%": (6, operator.mod),
}
SAID = {"<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">=": operator.ge, ">": operator.gt}
IN_PYTHON = {
    "causal": lambda at: at["k"] <= at["q"],
    "band(2)": lambda at: abs(at["q"] - at["k"]) <= 2,
    "causal(bottom_right)": lambda at: at["k"] - at["n_k"] <= at["q"] - at["n_q"],
    "prefix_lm(3)": lambda at: at["k"] <= at["q"] or at["k"] < 3,
    "sliding_window(2, steps_back)": lambda at: 0 <= at["q"] - at["k"] <= 2,
}


def within(grown, least):
    text, binding, _ = grown
    return text if binding >= least else f"({text})"


@st.composite
def numbers(draw, depth=2):
    kind = draw(st.sampled_from(["leaf", "operator", "divided", "neg", "abs", "choose"] if depth else ["leaf"]))
    if kind == "leaf":
        if draw(st.booleans()):
            name = draw(st.sampled_from(["q", "k", "h", "n_q", "n_k"]))
            return name, 8, lambda at: at[name]
        number = draw(st.integers(0, 9))
        return str(number), 8, lambda at: number
    a = draw(numbers(depth - 1))
    if kind == "neg":
        return f"-{within(a, 7)}", 7, lambda at: -a[2](at)
    if kind == "abs":
        return f"abs({a[0]})", 8, lambda at: abs(a[2](at))
    if kind == "divided":
        sign, number = draw(st.sampled_from(["//", "%"])), draw(st.integers(1, 4)) * draw(st.sampled_from([1, -1]))
        binding, does = OPERATORS[sign]
        return f"{within(a, binding)} {sign} {number}", binding, lambda at: does(a[2](at), number)
    b = draw(numbers(depth - 1))
    if kind == "choose":
        name, does = draw(st.sampled_from([("min", min), ("max", max)]))
        return f"{name}({a[0]},{b[0]})", 8, lambda at: does(a[2](at), b[2](at))
    sign = draw(st.sampled_from(["+", "-", "*"]))
    binding, does = OPERATORS[sign]
    return f"{within(a, binding)}{sign}{within(b, binding + 1)}", binding, lambda at: does(a[2](at), b[2](at))


@st.composite
def conditions(draw, depth=3):
    kind = draw(st.sampled_from(["named", "compared", "chained", "&", "|", "~"] if depth else ["named", "compared"]))
    if kind == "named":
        name = draw(st.sampled_from(sorted(IN_PYTHON)))
        return name, 8, IN_PYTHON[name]
    if kind in ("compared", "chained"):
        parts = [draw(numbers()) for _ in range(2 + (kind == "chained"))]
        signs = [draw(st.sampled_from(sorted(SAID))) for _ in parts[1:]]
        text = within(parts[0], 5) + "".join(f" {s} {within(p, 5)}" for s, p in zip(signs, parts[1:], strict=True))

        def holds(at):
            values = [part[2](at) for part in parts]
            return all(SAID[s](values[i], values[i + 1]) for i, s in enumerate(signs))

        return text, 4, holds
    a = draw(conditions(depth - 1))
    if kind == "~":
        return draw(st.sampled_from(["~", "not "])) + within(a, 3), 3, lambda at: not a[2](at)
    b = draw(conditions(depth - 1))
    sign = draw(st.sampled_from({"&": [" & ", " and ", "&"], "|": [" | ", " or ", "|"]}[kind]))
    binding = {"|": 1, "&": 2}[kind]
    text = f"{within(a, binding)}{sign}{within(b, binding + 1)}"
    if kind == "&":
        return text, 2, lambda at: a[2](at) and b[2](at)
    return text, 1, lambda at: a[2](at) or b[2](at)


@given(conditions(), st.integers(1, QUERIES), st.integers(1, KEYS), st.integers(0, 3))
def test_a_text_means_in_every_cell_what_it_means_in_python(grown, queries, keys, head):
    text, _, holds = grown
    expected = [
        [bool(holds({"q": q, "k": k, "h": head, "n_q": queries, "n_k": keys})) for k in range(keys)]
        for q in range(queries)
    ]
    assert cells(parse(text), queries, keys, head).tolist() == expected, text


@given(conditions())
def test_numbers_stay_exact_at_the_farthest_positions(grown):
    text, _, holds = grown
    mask = attempt(text)
    if isinstance(mask, MaskError):
        assert "too large" in str(mask)
        return
    length, ends = 1 << 20, [0, 1, (1 << 20) - 2, (1 << 20) - 1]
    at = torch.tensor(ends)
    said = mask.bind(length, length, 1)(torch.tensor(0), torch.tensor(1023), at[:, None], at).expand(4, 4)
    expected = [[bool(holds({"q": q, "k": k, "h": 1023, "n_q": length, "n_k": length})) for k in ends] for q in ends]
    assert said.tolist() == expected, text


RANGE = st.integers(-6, 6).flatmap(lambda least: st.integers(least, least + 4).map(lambda greatest: (least, greatest)))
ANY_TERM = st.recursive(
    st.builds(Number, st.integers(-4, 4)) | st.builds(Variable, st.sampled_from(["q", "k"])),
    lambda inner: (
        st.builds(Arithmetic, st.sampled_from(["+", "-", "*", "//", "%"]), inner, inner)
        | st.builds(lambda a: Function("abs", (a,)), inner)
        | st.builds(lambda name, a, b: Function(name, (a, b)), st.sampled_from(["min", "max"]), inner, inner)
    ),
    max_leaves=6,
)


@settings(max_examples=150)
@given(ANY_TERM, RANGE, RANGE)
def test_a_term_stays_within_its_bounds_and_divides_by_no_zero(term, q, k):
    try:
        least, greatest = term.bounds({"q": q, "k": k})
    except ValueError as error:
        said = str(error)
        assert re.match("The divisor .* may be 0. |.* divides by 0. ", said)
        return
    values = [term.value({"q": i, "k": j}) for i in range(q[0], q[1] + 1) for j in range(k[0], k[1] + 1)]
    assert least <= min(values)
    assert max(values) <= greatest


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("q - k", (-(1 << 20), 1 << 20)),
        ("q % 4", (0, 3)),
        ("q % -4", (-3, 0)),
        ("3 % (k + 5)", (3, 3)),
        ("-3 % -4", (-3, -3)),
        ("h // 2 - 1", (-1, 510)),
        ("abs(h - 3)", (0, 1020)),
        ("abs(h + 3)", (3, 1026)),
        ("abs(-h - 3)", (3, 1026)),
        ("min(h, 3) * -2", (-6, 0)),
        ("max(h, n_q, 3)", (3, 1 << 20)),
        ("7 // -2", (-4, -4)),
    ],
)
def test_bounds_of_common_terms_are_their_extremes(text, bounds):
    assert parse(f"{text} < 1").terms[0].bounds() == bounds


@pytest.mark.parametrize(
    "text",
    [
        "causal & q - k < 4 | k < 2",
        "10 // (k + 1) < q % 3 + h",
        "7 % (q + 1) == 0 | min(q, 3, k) < max(2, h - k)",
        "abs(n_q - n_k - q) <= -k // -2",
        "documents([2, 3], q - k < 2) | shifted(band(1), -2) & ~(h == 1)",
        "1 < 2 & 3 >= n_q",
    ],
)
def test_a_parsed_mask_runs_in_flex_attention(text):
    mask = parse(text)
    theirs = create_mask(mask.bind(QUERIES, KEYS, 1), 1, 2, QUERIES, KEYS, device="cpu")
    for head in range(2):
        assert torch.equal(theirs[0, head], cells(mask, head=head))


# What is refused: the text, the place (of the first character that is meant), and words of the sentence.

REFUSED = [
    ("", 0, "nothing here yet"),
    ("   ", 3, "nothing here yet"),
    ("slidng_window(4)", 0, "There is no mask called “slidng_window”; did you mean sliding_window?"),
    ("causal & Bandd", 9, "There is no mask called “Bandd”; did you mean band?"),
    ("q.__class__ < 2", 1, "Unexpected “.”"),
    ("causal.fit", 6, "Unexpected “.”"),
    ("q(3) < 2", 1, "q is a number and takes nothing in parentheses"),
    ("exec(q)", 0, "no mask called “exec”"),
    ("__import__('os')", 0, "no mask called “__import__”"),
    ("causal(3)(4)", 7, "Unexpected “3”: top_left or bottom_right for align of causal is expected"),
    ("full(1)", 5, "full takes no parameters"),
    ("q[0] < 1", 1, "Unexpected “[”: an operator"),
    ("[1, 2][q] < 1", 0, "Unexpected “[”: a mask"),
    ("[q for q in k]", 0, "Unexpected “[”"),
    ("{q: k}", 0, "Lists are written in [ and ]."),
    ("'causal'", 0, "Unexpected “'”"),
    ("f'{q}'", 0, "no mask called “f”"),
    ("lambda: causal", 6, "A mask_mod has four parameters"),
    ("causal if q else full", 7, "Unexpected “if”: an operator"),
    ("q ** 2 < 9", 2, "The language has no “**” here. Multiply instead"),
    ("q << 2 < 9", 2, "The language has no “<<” here. Multiply by 2"),
    ("q >> 2 < 9", 2, "The language has no “>>” here. Divide by 2"),
    ("q / 2 < 9", 2, "Division rounds down and is written //."),
    ("q ^ k", 2, "one but not both"),
    ("q @ k < 2", 2, "Unexpected “@”"),
    ("q = k", 2, "To compare, write ==."),
    ("(q := 3) < k", 3, "To compare, write ==."),
    ("causal && full", 7, "Write & alone."),
    ("causal || full", 7, "Write | alone."),
    ("!causal", 0, "Write ~ for “not”."),
    ("q <> k", 2, "Write !=."),
    ("causal; full", 6, "Unexpected “;”"),
    ("causal # all", 7, "Unexpected “#”"),
    ("1.5 < q", 0, "“1.5” is not a whole number"),
    (".5 < q", 0, "Unexpected “.”"),
    ("1e3 < q", 0, "“1e3” is not a whole number"),
    ("2q < k", 0, "To multiply, write 2 * q."),
    ("2 q < k", 2, "Unexpected “q”: an operator"),
    ("0x10 < q", 0, "“0x10” is not a whole number"),
    ("q < 1000000001", 4, "Numbers go up to 1,000,000,000 here."),
    ("q < " + "9" * 5000, 4, "Numbers go up to 1,000,000,000 here."),
    ("q", 0, "“q” is a number, but a condition is needed here. Compare it with another"),
    ("4", 0, "“4” is a number"),
    ("k < 2 | q + 1", 8, "“q + 1” is a number, but | combines conditions"),
    ("~q", 1, "“q” is a number"),
    ("1 + (q < 2) < 2", 4, "“q < 2” is a condition, but + takes numbers"),
    ("causal < 2", 0, "“causal” is a condition, but < compares numbers"),
    ("q < causal", 4, "“causal” is a condition, but < compares numbers"),
    ("abs(causal) < 1", 4, "“causal” is a condition, but abs takes numbers"),
    ("(q < 2) == (k < 2)", 0, "“q < 2” is a condition, but == compares numbers"),
    ("abs < 2", 0, "abs takes numbers in parentheses, as in abs(q - k)."),
    ("abs() < 2", 4, "Unexpected “)”: a mask"),
    ("abs(q, k) < 2", 0, "abs takes one number, as in abs(q - k)."),
    ("min(q) < 2", 0, "min takes two numbers or more"),
    ("max(q, k < 2", 12, "The text ends where “)” for the “(” at character 4 is expected."),
    ("(causal", 7, "The text ends where “)” for the “(” at character 1 is expected."),
    ("causal)", 6, "Unexpected “)”: an operator, such as & or |, or the end is expected."),
    ("causal &", 8, "The text ends where a mask, such as causal, or a number, such as q or 4, is expected."),
    ("& causal", 0, "Unexpected “&”: a mask"),
    ("causal and or full", 11, "Unexpected “or”: a mask"),
    ("causal full", 7, "Unexpected “full”: an operator"),
    ("q < < k", 4, "Unexpected “<”: a mask"),
    (
        "sliding_window(4, steps_back, 3)",
        30,
        "size and counts. It got 4, steps_back and 3: write sliding_window(4, steps_back).",
    ),
    ("sliding_window(width=3)", 15, "sliding_window takes size and counts, but no “width”"),
    ("sliding_window(siz=3)", 15, "did you mean size?"),
    ("sliding_window(size=3, size=4)", 23, "size is given twice"),
    ("sliding_window(3, size=4)", 18, "size is given twice"),
    ("sliding_window(counts=steps_back, 3)", 34, "needs its name, too"),
    ("sliding_window(3, steps)", 18, "counts of sliding_window is keys_seen or steps_back, not “steps”"),
    ("sliding_window(3, step_back)", 18, "did you mean steps_back?"),
    ("sliding_window(q)", 15, "Unexpected “q”: a whole number for size of sliding_window is expected"),
    ("sliding_window(-1)", 15, "size goes from 0 to 131,072; this is -1."),
    ("sliding_window(200000)", 15, "size goes from 0 to 131,072; this is 200,000."),
    ("sliding_window(4,)", 17, "Unexpected “)”: keys_seen or steps_back"),
    ("sliding_window(2 + 2)", 17, "Unexpected “+”: “)” for the “(” at character 15"),
    ("documents(3)", 10, "Unexpected “3”: a list such as [3, 4] for lengths of documents is expected"),
    ("documents([3, 0])", 14, "lengths goes from 1 to 131,072; this is 0."),
    ("documents([3, q])", 14, "Unexpected “q”: a whole number is expected"),
    ("documents([3, 4)", 15, "Unexpected “)”: “]” for the “[” at character 11"),
    ("documents([" + "1, " * 64 + "1])", 203, "lengths has at most 64 numbers"),
    ("documents([3], 4)", 15, "“4” is a number, but a condition is needed here"),
    ("documents([3], causal(bottom_right))", 0, "Documents needs an inner mask"),
    ("documents([3], " * 5 + "full" + ")" * 5, 15, "More than 3 documents are nested here"),
    ("documents([3], q // (k + 1) < 2)", 0, "The divisor k + 1 may be 0."),
    ("padding([1, 2])", 12, "1 for yes or 0 for no; this is 2."),
    ("padding([" + "1," * 5000 + "1])", 8201, "keys has at most 4,096 numbers"),
    ("full & neighborhood_2d(4, 2)", 7, "needs an odd kernel_height"),
    ("big_bird(lengths=[3, 4])", 9, "big_bird takes block, random and seed, but no “lengths”"),
    ("shifted(causal)", 0, "shifted takes mask and by; by must be given."),
    ("shifted", 0, "mask and by must be given"),
    ("shifted(3, 4)", 8, "“3” is a number"),
    ("shifted(causal, 1000000001)", 16, "Numbers go up to"),
    ("full & shifted(k // (q + 1) < 2, -1)", 7, "The divisor q + 1 may be 0."),
    ("grid(2, 2, 0xff)", 0, "A grid of 2 × 2 has 4 cells; the number has more."),
    ("grid(2, 2, 0x)", 11, "After 0x come only the digits"),
    ("grid(2, 2, 15)", 11, "Unexpected “15”: a number such as 0x80c0"),
    ("grid(2, 2)", 0, "cells must be given"),
    ("q % k < 2", 2, "The divisor k may be 0. Write max(k, 1) instead."),
    ("q // (k - 1) < 2", 2, "The divisor k - 1 may be 0. Write max(k - 1, 1) instead."),
    ("q % 0 == 1", 2, "q % 0 divides by 0. Write another number after %, as in q % 2."),
    ("(q + k) // (2 - 2) < 1", 8, "divides by 0. Write another number after //"),
    ("sinks(2, 3)", 9, "sinks takes one number, its size. It got 2 and 3: write sinks(2)."),
    ("sinks(2, -3 + 1)", 9, "It got 2 and -3 + 1: write sinks(2)."),
    ("sinks(2,)", 8, "sinks takes one number, its size. Write sinks(2)."),
    ("full(3)", 5, "full takes no parameters. Write full alone."),
    ("padding(3, (4))", 11, "padding takes one parameter, its keys. It got 3 and more: write padding(3)."),
    ("tril", 0, "There is no mask called “tril”. Here it is called causal."),
    ("causal & Local(3)", 9, "Here it is called sliding_window for what is before the query, or band for both sides."),
    ("q_idx >= kv_idx", 0, "Here it is called q."),
    ("alibi", 0, "It is a bias: it changes scores, and hides no key. Choose it under “Biases”"),
    ("torch.where(q < k)", 0, "Functions of libraries are not read."),
    (
        "lambda",
        0,
        "A function is read if it returns a condition of four positions, such as “lambda b, h, q, kv: q >= kv”",
    ),
    ("def f(b, h, q, k)\n return q >= k", 0, "A function is read if it returns a condition"),
    ("def f(b, h, q, k) - 3: return q >= k", 18, "A function is read if it returns a condition"),
    ("def f(b, h, q, k=4): return q >= k", 6, "A mask_mod has four parameters"),
    ("def outer(w):\n def f(b, h, q, k): return q >= k\n return f", 10, "A mask_mod has four parameters"),
    ("import torch\ndef f(b, h, q, k): return q >= k", 0, "Paste the function alone, with the numbers that it uses"),
    ("@jit\ndef f(b, h, q, k): return q >= k", 0, "Unexpected “@” before the function."),
    ('def f(b, h, q, k):\n """Open\n return q >= k', 20, 'Unexpected “"”: a name with its value'),
    ("def f(b, h, q, k):\n near = q >= k", 33, "The function ends without a result. Write return and a condition."),
    ("def f(b, h, q, k):\n near = q >= k\n return", 41, "There is nothing here yet."),
    ("def f(b, h, q, k):\n near =\n return q >= k", 26, "There is nothing here yet."),
    ("def f(b, h, q, k):\n near = q >=\n return q >= k", 31, "The line ends where a mask"),
    ("def f(b, h, q, k):\n near = q >= k\n near &= k > 2\n return near", 40, "Write near = near & ( … )."),
    ("def f(b, h, q, k):\n x, y = q, k\n return x >= y", 20, "Unexpected “x”: a name with its value"),
    ("def f(b, h, q, k):\n near = q >= k\n return near < 3", 42, "is a condition, but < compares numbers"),
    ("def f(b, h, q, k):\n near = q >= k\n return near(3)", 46, "Unexpected “(”: an operator"),
    ("def f(b, h, q, k):\n if h < 2:\n  return q >= k\n return k < 2", 20, "“if” is not read. Join conditions with &"),
    ("def f(b, h, q, k):\n return q >= k\n\nm = create(f)", 35, "The function ends before this line."),
    ("def f(b, h, q, k):\n return q - k < WINDOW", 35, "Write its number, or WINDOW = 4 above the function."),
    ("def f(b, h, q, k):\n return True", 27, "True is not read. Write q >= 0 for what is always true"),
    ("def f(b, h, q, k):\n return ids[q] == ids[k]", 27, "Tables such as ids are not read. Write a mask, such as"),
    ("lambda b, h, q, k: (q - k).abs() < 3", 26, "Unexpected “.”. Methods are not read. Write abs(x)"),
    ("lambda b, h, q, k: ~(q - 1) < k", 19, "In Python, ~ binds more tightly than a comparison."),
    ("def f(b, h, q, k):\n x = q\n" + " x = x + x\n" * 40 + " return x < k", 112, "has more than 500 parts"),
    ("lambda b, h, q, q: q >= k", 6, "A mask_mod has four parameters"),
    ("lambda b, h, q, *k: q >= k", 6, "A mask_mod has four parameters"),
    ("lambda b, h, q, k: b < 1", 19, "b is the position in the batch."),
    ("lambda b, h, q, k: ", 19, "There is nothing here yet."),
    ("lambda b, h, q, k: (q >= k) and (k < 2)", 28, "“and” fails on tensors. Write &, as in (q >= kv) & (q - kv < 4)."),
    ("lambda b, h, q, k: (q >= k) or (k < 2)", 28, "“or” fails on tensors. Write |, as in"),
    ("lambda b, h, q, k: not q >= k", 19, "“not” fails on tensors. Write ~, as in ~(q < k)."),
    ("lambda b, h, q, k: q >= k & q - k < 4", 19, "In Python, & binds more tightly than a comparison."),
    ("lambda b, h, q, k: (q >= k) | k < 4", 30, "Put this one in parentheses."),
    ("lambda b, h, q, k: ~q < k", 19, "In Python, ~ binds more tightly than a comparison."),
    ("lambda b, h, q, k: q >= k if h else q < k", 26, "Unexpected “if”"),
    ("lambda b, h, q, k: __import__(0) < k", 19, "There is no mask called “__import__”."),
    ("q // -(q - k) < 1", 2, "may be 0"),
    ("q*q*q*q < k", 5, "q * q * q * q can be too large to compute with."),
    ("k < 1000000000 * 1000000000 * 10", 28, "can be too large to compute with."),
    ("\0", 0, "Here is a character that cannot be seen, u+0000"),
    ("саusal", 0, "“с” is cyrillic small letter es, which the language does not have."),
    ("caus\u0430l", 4, "“а” is cyrillic small letter a"),
    ("q < ３", 4, "“３” is fullwidth digit three"),
    ("q \u202e< k", 2, "cannot be seen, right-to-left override"),
    ("q\u200b < k", 1, "cannot be seen, zero width space"),
    ("q \ud800 < k", 2, "cannot be seen, u+d800"),
    ("q ⩽ k", 2, "“⩽” is less-than or slanted equal to"),
    ("😀", 0, "“😀” is grinning face"),
    ("~" * 60 + "causal", 50, "More than 50 parts are nested here."),
    ("-" * 79_000 + "q < 1", 50, "More than 50 parts are nested here."),
    ("shifted(" * 60 + "causal", 400, "More than 50 parts"),
    ("|".join(["k<1"] * 20_000), 0, "more than 50 parts one after the other"),
    ("+".join(["q"] * 20_000), 99, "more than 50 parts one after the other"),
    ("<".join(["q"] * 20_000), 1000, "more than 500 parts"),
    ("|".join(["(" + "|".join(["k<1"] * 20) + ")"] * 20), 513, "more than 500 parts"),
    ("q < 1" + " " * LONGEST_TEXT, LONGEST_TEXT, "A mask has at most 80,000 characters; this text has 80,005."),
]


@pytest.mark.parametrize(
    ("text", "position", "words"), REFUSED, ids=lambda x: repr(x[:40]) if isinstance(x, str) else ""
)
def test_what_is_no_mask_is_refused_at_its_place_and_in_words(text, position, words):
    with pytest.raises(MaskError) as refused:
        parse(text)
    error = refused.value
    assert words in str(error)
    assert error.position == position
    assert isinstance(error, ValueError)
    assert str(error).endswith((".", "?"))
    assert len(str(error)) < 500
    where = f"At character {position + 1}: " if position < len(text) else "At the end: "
    assert str(error).startswith(where)
    line, caret = error.pointer.split("\n")
    assert caret == " " * (len(caret) - 1) + "^"
    assert len(line) <= 72
    if position < len(text) and text[position].isprintable():
        assert line[len(caret) - 1] == text[position]


def test_the_pointer_shows_the_line_that_is_meant():
    with pytest.raises(MaskError) as refused:
        parse("causal\n  & bnd(2)\n  & full")
    assert refused.value.pointer == "  & bnd(2)\n    ^"
    assert pickle.loads(pickle.dumps(refused.value)).pointer == refused.value.pointer


def test_remainders_and_quotients_that_cannot_fail_are_read():
    for text in ("q // (k + 1) < 2", "q % max(k, 1) < 2", "q % n_k < 2", "q // -(k + 1) < 2", "q % (k % 3 - 4) < 0"):
        assert cells(parse(text)).dtype == torch.bool


def test_names_follow_from_the_catalogue():
    assert {"causal", "prefix_lm", "neighborhood_2d", "shifted_window_2d", "big_bird", "grid", "shifted"} <= set(
        names()
    )
    assert set(names().values()) == {*MASKS, Grid, Shifted}
    assert all(re.fullmatch("[a-z][a-z0-9_]*", name) for name in names())
    # No name means two things.
    assert not set(names()) & {"q", "k", "h", "n_q", "n_k", "abs", "min", "max", "and", "or", "not"}
    assert len(names()) == len(MASKS) + 2


def test_choices_are_different_words():
    for kind in MASKS:
        for one in fields(kind):
            if isinstance(one.default, str):
                words = [choice_word(said) for said in one.type.__args__]
                assert len(set(words)) == len(words)
                assert all(re.fullmatch("[a-z][a-z0-9_]*", said) for said in words)


def test_what_a_fitted_mask_was_told_is_not_in_its_text():
    assert str(Causal("bottom right").bind(3, 5, 1)) == "shifted(causal, 2)"
    assert str(parse("big_bird(2)").bind(6, 7, 1)) == str(parse("big_bird(2)"))
    assert str(parse("q < n_k").bind(6, 7, 1)) == "q < 7"


def test_a_mask_of_ones_own_has_a_name_too():
    class PerHead(Mask):
        def __call__(self, b, h, q, k):
            return k <= q + h

    assert str(PerHead() & Causal()) == "per_head & causal"


def test_a_rule_with_a_table_has_a_readable_text():
    table = Compare((Lookup((3, 4), Variable("q")), Variable("k")), ("<",))
    assert str(table) == "[3, 4][q] < k"
    assert (
        table.condition() == "the number at place the query's position of a list of 2 is less than the key's position"
    )


# The largest trees that can be said.

HALF = DEEPEST // 2
LARGEST = {
    "chain": "|".join(["k<1"] * (DEEPEST - 1)),
    "chain of and and or": "k<1" + "&k<2|q<1" * (HALF - 1),
    "chain of numbers": "+".join(["q"] * (DEEPEST - 1)) + " < 3",
    "comparisons": " < ".join(["q", *"k" * (DEEPEST - 1)]),
    "nots": "~" * (DEEPEST - 1) + "causal",
    "parentheses": "(" * (DEEPEST - 1) + "causal" + ")" * (DEEPEST - 1),
    "to the right": "".join(f"k<{n}|(" for n in range(HALF - 1)) + "causal" + ")" * (HALF - 1),
    "both ways": "".join(f"k<{n}&~(" for n in range(15)) + "causal" + ")" * 15,
    "minus": "-" * (DEEPEST - 3) + "q < 1",
    "functions": "min(q," * (HALF - 1) + "k" + ")" * (HALF - 1) + " < 2",
    "shifted": "shifted(" * (HALF - 1) + "causal" + ", 1)" * (HALF - 1),
    "documents": "documents([2]," * 3 + "full" + ")" * 3,
    "broad": "|".join(["(" + "|".join(["k<1"] * 7) + ")"] * 17),
}


@pytest.mark.parametrize("text", LARGEST.values(), ids=LARGEST)
def test_nothing_that_walks_the_largest_masks_runs_out_of_stack(text):
    mask = parse(text)
    assert parse(str(mask)) == mask
    assert hash(parse(text)) == hash(mask)
    assert repr(mask)
    assert mask.describe()
    assert deepcopy(mask) == mask
    assert pickle.loads(pickle.dumps(mask)) == mask
    assert cells(rule(mask, QUERIES, KEYS)).shape == cells(mask).shape == (QUERIES, KEYS)


# Anything that is typed.

WORDS = st.sampled_from(
    [
        *("q", "k", "h", "n_q", "n_k", "abs", "min", "max", "and", "or", "not", "causal", "full", "band", "documents"),
        *("sliding_window", "steps_back", "padding", "grid", "shifted", "tree", "big_bird", "prefix_lm", "size", "by"),
        *("0", "1", "2", "3", "12", "1000000000", "0x1f", "-1", "(2)", "(3, 4)", "([3, 4], causal)", "(q, k)"),
        *("+", "-", "*", "//", "%", "<", "<=", "==", "!=", ">=", ">", "&", "|", "~", "(", ")", "[", "]", ",", "="),
        *("≤", "≥", "≠", "¬", "∧", "∨", "−", "**", "<<", "/", ".", "'", "\n", "k < 2", "q - k", "causal |", "& ("),
    ]
)
TYPED = st.lists(WORDS, max_size=14).flatmap(lambda words: st.sampled_from(["", " "]).map(lambda by: by.join(words)))


def read_or_refused(text):
    mask = attempt(text)
    if isinstance(mask, MaskError):
        assert 0 <= mask.position <= len(text)
        assert re.fullmatch(r"At (the end|character \d+): .*[.?]", str(mask), re.DOTALL)
        assert mask.pointer.endswith("^")
        return
    assert parse(str(mask)) == mask
    assert mask.describe()
    try:
        mask.bind(QUERIES, KEYS, 1)
    except ValueError:  # made for certain lengths alone
        return
    assert cells(mask).dtype == torch.bool


@given(st.text())
def test_any_text_is_a_mask_or_refused(text):
    read_or_refused(text)


@given(TYPED)
def test_any_text_of_the_words_of_the_language_is_a_mask_or_refused(text):
    read_or_refused(text)


@given(conditions(), st.data())
def test_a_text_with_something_changed_is_a_mask_or_refused(grown, data):
    text = grown[0]
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 3)))
    read_or_refused(text[:start] + data.draw(WORDS | st.characters()) + text[end:])


LONG = {
    "spaces": " " * LONGEST_TEXT,
    "causal and spaces": "causal" + " " * (LONGEST_TEXT - 6),
    "spaces between": "causal" + (" " * 1600 + "&" + " " * 100 + "k<2") * 40,
    "digits": "1" * LONGEST_TEXT,
    "digits and a point": "1" * (LONGEST_TEXT - 1) + ".",
    "a name": "q" * LONGEST_TEXT,
    "parentheses": "(" * LONGEST_TEXT,
    "closed": ")" * LONGEST_TEXT,
    "nots": "~" * LONGEST_TEXT,
    "ors": "k<1|" * (LONGEST_TEXT // 4),
    "a list": "padding([" + "1," * ((LONGEST_TEXT - 11) // 2) + "1])",
    "a grid": "grid(512, 512, 0x" + "f" * 65_536 + ")",
    "lists": "|".join([f"documents([{'1,' * 63}1])"] * 30),
    "comparisons": " < ".join(["q * k"] * 160),
    "products": "*".join(["1"] * (DEEPEST - 1)) + " < q",
    "shifted": "shifted(" * (HALF - 1) + "|".join(["k<1"] * 20) + ", 1)" * (HALF - 1),
    **LARGEST,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_work_grows_with_the_text_and_no_faster(text):
    calls = 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event == "call" and "attnviz/masks" in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        done = attempt(text)
    finally:
        sys.setprofile(None)
    assert isinstance(done, Mask | MaskError)
    assert 0 < calls < 30_000  # of which a list of 4,096 numbers takes most


# In English.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("q - k < 4", "the query's position minus the key's is less than 4"),
        ("4 > q - k", "the query's position minus the key's is less than 4"),
        ("k - q < 4", "the key's position minus the query's is less than 4"),
        ("k <= q", "the key is not after it"),
        ("q >= k", "the key is not after it"),
        ("k < q", "the key is before it"),
        ("q < k", "the key is after it"),
        ("k == q", "the key is at the same position"),
        ("k < 2", "the key is one of the first 2"),
        ("2 > k", "the key is one of the first 2"),
        ("k <= 2", "the key is one of the first 3"),
        ("k < 1", "the key is the first"),
        ("q > 0", "the query is not the first"),
        ("k >= 3", "the key is not one of the first 3"),
        ("k < 0", "the key's position is less than 0"),
        ("~(k < 2)", "the key is not one of the first 2"),
        ("abs(q - k) <= 2", "the distance between the query and the key is at most 2"),
        ("0 <= q - k < 4", "the query's position minus the key's is at least 0 and is less than 4"),
        ("q % 2 == k % 2", "the query's position modulo 2 is the key's position modulo 2"),
        ("h == 1 & causal", "the head's number is 1 and the key is not after it"),
        (
            "causal & (k < 2 | h > 0)",
            "the key is not after it and (the key is one of the first 2, or the head is not the first)",
        ),
        (
            "~(causal & k < 2) | h == 0",
            "(it is not so that (the key is not after it and the key is one of the first 2)), "
            "or the head's number is 0",
        ),
        (
            "causal & k < 4 & q > 1",
            "the key is not after it and the key is one of the first 4 and the query is not one of the first 2",
        ),
        ("~causal & k < 2", "(it is not so that the key is not after it) and the key is one of the first 2"),
        (
            "shifted(causal, 1) & k < 2",
            "(the key is not after it, counted as if each query were 1 position later) and "
            "the key is one of the first 2",
        ),
        ("shifted(causal, 1)", "the key is not after it, counted as if each query were 1 position later"),
        ("shifted(causal, -2)", "the key is not after it, counted as if each query were 2 positions earlier"),
    ],
)
def test_conditions_are_said_in_english(text, said):
    assert parse(text).condition() == said


@given(ANY)
def test_the_parts_of_a_combination_are_kept_apart(mask):
    """Parentheses balance, and no two operators meet outside of them."""

    def parts(mask, kind):
        return [one for part in (mask.left, mask.right) for one in parts(part, kind)] if type(mask) is kind else [mask]

    said = mask.condition()
    outside = ""
    depth = 0
    for character in said:
        depth += (character == "(") - (character == ")")
        assert depth >= 0
        outside += character * (depth == 0)
    assert depth == 0
    if isinstance(mask, And):
        assert ", or " not in outside
        assert outside.count(" and ") == len(parts(mask, And)) - 1
    if isinstance(mask, Or):
        assert " and " not in outside
        assert outside.count(", or ") == len(parts(mask, Or)) - 1
    if isinstance(mask, Not) and isinstance(mask.mask, And | Or | Not):
        assert re.match(r"it is not so that \)", outside)


@pytest.mark.parametrize(
    "text",
    [
        f"documents([{', '.join(['131072'] * 64)}])",
        f"shared_prefix([{', '.join(['131072'] * 11)}], [{', '.join(['0'] * 11)}])",
        f"image_and_text([{', '.join(['131072'] * 17)}])",
        f"documents([131072, 131072], {'documents([131072], ' * 2}documents([{', '.join(['131072'] * 13)}]))))",
        "(vertical_slash([0, 1048575], [0, 1048575]) | k < 2) & vertical_slash([0, 1048575], [-1048575, 1048575])",
        " & ".join(["big_bird(1, 8)"] * 5),
        " & ".join(["cross_to_image([131071])"] * 33),
    ],
)
def test_tables_are_bounded_before_they_are_made(text):
    """A hundred such masks took 8 GB and minutes on every page that draws a mask."""
    with pytest.raises(MaskError, match=r"The lists make tables of [\d,]+ numbers; at most 4,194,304 are possible"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("causal &", "Am Ende: Der Text endet, wo eine Maske, etwa causal, oder eine Zahl, etwa q"),
        ("causl", "Bei Zeichen 1: Es gibt keine Maske namens „causl“; meinten Sie causal?"),
        ("q ** 2 < k", "Bei Zeichen 3: „**“ gibt es in der Sprache hier nicht. Multiplizieren Sie"),
        ("lambda b, h, q, k: b < 1", "Bei Zeichen 20: b ist die Position im Batch. Eine Maske ist"),
        ("lambda b, h, q: q", "Eine mask_mod hat vier Parameter, für Batch, Kopf, Query und Key"),
    ],
)
def test_errors_are_in_the_language_of_the_reader(text: str, sentence: str) -> None:
    with language("de"):
        with pytest.raises(MaskError) as german:
            parse(text)
        assert sentence in str(german.value)
