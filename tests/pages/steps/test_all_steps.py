"""The computation written out, against Mechanism, the translator, slow loops and sums read back from their words."""

import math
import re
from functools import cache

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from attnviz.biases import BIASES, ALiBi, SoftCap
from attnviz.masks import Causal, Documents, Full, SlidingWindow
from attnviz.mechanism import Mechanism
from attnviz.pages.steps.all_steps import Steps, compute_steps
from attnviz.pages.steps.computation import Computation, HeadMatrices, StepsExample
from attnviz.pages.steps.edits import LARGEST, Edits, format_edits, parse_edits
from attnviz.pages.steps.matrix import cell_number
from attnviz.pages.steps.operations import Concatenated, Product, RowTotals, Scaled
from attnviz.pages.steps.sentence_example import MOST_WORDS, WIDTH, SentenceExample
from attnviz.pages.steps.translator_example import TranslatorExample
from attnviz.scores import Cosine, ScaledDot, Score
from attnviz.translator import EXAMPLES, VARIANTS, load
from attnviz.translator.encoder_decoder import HEADS, LAYERS, Use

words = st.text(st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"]), min_size=1, max_size=6)
sentences = st.lists(words.filter(lambda word: word.split() == [word]), min_size=2, max_size=MOST_WORDS).map(" ".join)
examples = st.fixed_dictionaries(
    {
        "text": sentences,
        "second": st.none() | sentences,
        "d_k": st.integers(2, 8),
        "heads": st.integers(1, 4),
        "mask": st.sampled_from([Full(), Causal(), SlidingWindow(2), Documents()]),
        "biases": st.sampled_from([(), *((bias(),) for bias in BIASES), (SoftCap(2.0), ALiBi("symmetric"))]),
    }
)
values = st.floats(-LARGEST, LARGEST, allow_subnormal=False)


whole = cache(compute_steps)  # what is the same in every example of a test


def drawn_edits(data: st.DataObject, whole: Steps, matrices: list[str]) -> Edits:
    edits: dict[str, dict[tuple[int, int], float]] = {}
    for _ in range(data.draw(st.integers(0, 4))):
        name = data.draw(st.sampled_from(matrices))
        rows, columns = whole.matrices[name].values.shape
        at = (data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1)))
        edits.setdefault(name, {})[at] = data.draw(values)
    return edits


def agrees_with_mechanism(found: Steps) -> None:
    attention = found.mechanism(found.inputs)
    for head in range(found.inputs.heads):
        last = next(name for name in ("masked", "biased", "scaled", "raw") if f"{name}{head}" in found.matrices)
        raw = "scaled" if f"scaled{head}" in found.matrices else "raw"
        for name, stage in ((raw, "raw"), (last, "scores"), ("weights", "weights"), ("output", "output")):
            torch.testing.assert_close(found.matrices[f"{name}{head}"].values, getattr(attention, stage)[head])
    if found.inputs.heads > 1:
        joined = attention.output.transpose(0, 1).flatten(1)
        torch.testing.assert_close(found.matrices["heads"].values, joined)


@settings(max_examples=25)
@given(examples)
def test_every_matrix_is_what_the_mechanism_computes(asked: dict) -> None:
    agrees_with_mechanism(compute_steps(SentenceExample(**asked)))


@settings(max_examples=25)
@given(examples, st.data())
def test_also_with_numbers_written_by_hand_before_the_scores(asked: dict, data: st.DataObject) -> None:
    example = SentenceExample(**asked)
    whole = compute_steps(example)
    before = [name for name, matrix in whole.matrices.items() if matrix.stage in ("queries", "keys", "values")]
    agrees_with_mechanism(compute_steps(example, drawn_edits(data, whole, before)))


def test_every_number_against_a_slow_loop() -> None:
    found = compute_steps(SentenceExample("to be or not", d_k=3, heads=2, mask=Causal()))
    one = {name: matrix.values.tolist() for name, matrix in found.matrices.items()}
    for h in range(2):

        def product(a: list, b: list) -> list:
            return [[sum(x * b[i][j] for i, x in enumerate(row)) for j in range(len(b[0]))] for row in a]

        q, k, v = (product(one["X"], one[f"W{role}{h}"]) for role in "qkv")
        output = []
        for i, query in enumerate(q):
            scores = [sum(x * y for x, y in zip(query, key, strict=True)) / math.sqrt(3) for key in k[: i + 1]]
            exps = [math.exp(score - max(scores)) for score in scores]
            weights = [exp / sum(exps) for exp in exps]
            output.append([sum(w * value[c] for w, value in zip(weights, v, strict=False)) for c in range(3)])
            hidden = [0.0] * (3 - i)
            assert one[f"exp{h}"][i] == pytest.approx(exps + hidden)
            assert one[f"sum{h}"][i] == pytest.approx([sum(exps)])
            assert one[f"weights{h}"][i] == pytest.approx(weights + hidden)
            assert one["heads"][i][3 * h : 3 * h + 3] == pytest.approx(output[i])
        assert [list(map(float, row)) for row in one[f"output{h}"]] == [pytest.approx(row) for row in output]


USES: dict[Use, list[int]] = {"encoder": [0, 1], "decoder": [2, 4], "cross": [3, 5]}  # places in Translation.layers


@pytest.mark.parametrize("similarity", ["scaled dot", "dot", "general"])
@pytest.mark.parametrize("use", USES)
def test_a_head_of_the_translator_is_written_out_as_it_ran(similarity: str, use: Use) -> None:
    translation = load(similarity).translate(EXAMPLES[2])
    for place in range(LAYERS):
        layer = translation.layers()[USES[use][place]]
        ran = layer.mechanism(layer.inputs)
        for head in range(HEADS):
            found = compute_steps(TranslatorExample(EXAMPLES[2], similarity, use, place, head))
            for name in ("query", "key", "value"):
                assert torch.equal(
                    found.matrices[f"{name[0].upper()}0"].values, getattr(layer.inputs, name)[head].double()
                )
            for name in ("weights", "output"):
                computed, expected = found.matrices[f"{name}0"].values.float(), getattr(ran, name)[head]
                torch.testing.assert_close(computed, expected, rtol=1e-4, atol=1e-5)
            assert found.matrices["weights0"].columns == layer.inputs.key_tokens
            agrees_with_mechanism(found)


def test_rows_of_the_decoder_are_named_by_the_words_in_and_out() -> None:
    translation = load().translate(EXAMPLES[0])
    for use in ("decoder", "cross"):
        rows = compute_steps(TranslatorExample(use=use)).inputs.query_tokens
        assert rows == translation.decoder_rows
        assert rows[2] == "petite → voiture"
    assert compute_steps(TranslatorExample(use="encoder")).inputs.query_tokens == translation.english


def test_the_stages_of_the_translator_are_those_of_its_score_and_mask() -> None:
    rest = ("exp", "softmax", "values", "output")
    assert compute_steps(TranslatorExample()).stages == ("queries", "keys", "similarity", "scaling", *rest)
    assert compute_steps(TranslatorExample(use="decoder")).stages == (
        "queries",
        "keys",
        "similarity",
        "scaling",
        "mask",
        *rest,
    )
    assert compute_steps(TranslatorExample(similarity="dot")).stages == ("queries", "keys", "similarity", *rest)
    general = compute_steps(TranslatorExample(similarity="general"))
    assert general.stages == ("queries", "keys", "similarity", *rest)
    q, w, k = (general.matrices[name].values.tolist() for name in ("Q0", "W", "K0"))
    scores = [
        [sum(q[i][a] * w[a][b] * k[j][b] for a in range(16) for b in range(16)) for j in range(len(k))]
        for i in range(len(q))
    ]
    torch.testing.assert_close(general.matrices["raw0"].values, torch.tensor(scores, dtype=torch.float64))


@settings(max_examples=20)
@given(st.sampled_from(["scaled dot", "dot", "general"]), st.sampled_from(list(USES)), st.integers(0, 3), st.data())
def test_also_with_numbers_written_by_hand_into_the_translator(
    similarity: str, use: Use, head: int, data: st.DataObject
) -> None:
    example = TranslatorExample(EXAMPLES[3], similarity, use, 1, head)
    given_ones = [name for name, matrix in whole(example).matrices.items() if not matrix.sources]
    edits = drawn_edits(data, whole(example), given_ones)
    found = compute_steps(example, edits)
    for name, cells in edits.items():
        assert all(float(found.matrices[name].values[at]) == value for at, value in cells.items())
    agrees_with_mechanism(found)


def test_one_word_is_enough_for_the_translator() -> None:
    assert compute_steps(TranslatorExample(".", use="encoder")).matrices["weights0"].values.tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("example", "said"),
    [
        ({"similarity": "additive"}, "with 32 hidden numbers for each pair of a query and a key: too many"),
        ({"english": "the cat sleps"}, "but not “sleps”"),
        ({"english": " "}, "There is no text yet"),
        ({"similarity": "cosine"}, f"The translator's variants are {', '.join(VARIANTS)}"),
        ({"layer": 2}, "The translator has 2 layers, counted from 0; layer 2 was requested"),
        ({"head": -1}, "The translator has 4 heads, counted from 0; head -1 was requested"),
    ],
)
def test_a_head_that_cannot_be_written_out_is_refused_in_words(example: dict, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        compute_steps(TranslatorExample(**example))


def test_a_self_attention_of_the_additive_translator_is_written_out() -> None:
    assert "scaled0" in compute_steps(TranslatorExample(similarity="additive", use="encoder")).matrices


@pytest.mark.parametrize("score", [Cosine(), ScaledDot(scale=0.5)], ids=repr)
def test_another_kind_of_example_is_a_class_with_a_score_that_has_steps(score: Score) -> None:
    class Two(StepsExample):
        def build(self, computation: Computation) -> tuple[Mechanism, list[HeadMatrices]]:
            one = computation.add_input(
                "Q0", "Q", "two vectors", torch.eye(2).double(), ("a", "b"), "given", "queries", head=0
            )
            return Mechanism(score if computation.edits else ScaledDot()), [(one, one, one)]

    agrees_with_mechanism(compute_steps(Two()))
    with pytest.raises(ValueError, match=re.escape(f"{score} is not written out here")):
        compute_steps(Two(), {"Q0": {(0, 0): 1.0}})


def added_up(text: str) -> float:
    """What a sum in words comes to, for the forms that there are: products, a quotient, exp, and plain sums."""

    def value(word: str) -> float:
        word = word.strip().removeprefix("(").removesuffix(")").replace("−", "-").replace("∞", "inf")
        return math.sqrt(float(word[1:])) if word.startswith("√") else float(word)

    if inner := re.fullmatch(r"exp\((.*)\)", text):
        first, *less = re.split(r" − ", inner[1])
        return math.exp(value(first) - sum(map(value, less)))
    if " / " in text:
        above, below = text.split(" / ")
        return value(above) / value(below)
    return sum(math.prod(map(value, term.split("·"))) for term in text.replace(" − ", " + −").split(" + "))


@settings(max_examples=25)
@given(examples, st.data())
def test_a_sum_in_words_comes_to_the_number(asked: dict, data: st.DataObject) -> None:
    example = SentenceExample(**asked)
    found = compute_steps(example)
    made = [matrix for matrix in found.matrices.values() if matrix.sources and matrix.name != "heads"]
    matrix = data.draw(st.sampled_from(made))
    row, column = (data.draw(st.integers(0, size - 1)) for size in matrix.values.shape)
    written, value = (
        re.sub(r" \(\w[^)]*\)$", "", matrix.formula(row, column).rsplit(" = ", 1)[0]),
        matrix.values[row, column],
    )
    assert matrix.formula(row, column).endswith(f"= {cell_number(float(value))}")
    if value.isneginf():
        assert added_up(written) == -math.inf
        return
    # Each number that is read is at most 0.005 off, and a product or quotient carries that along.
    parts = []
    for part in matrix.operands(row, column):
        source = found.matrices[part.matrix].values
        parts.append(source[part.rows.start : part.rows.stop, part.columns.start : part.columns.stop])
    size = max(float(part[part.isfinite()].abs().max()) if bool(part.isfinite().any()) else 0 for part in parts)
    terms = 1 + sum(part.numel() for part in parts)  # a bias is read beside the cells
    assert added_up(written) == pytest.approx(float(value), abs=0.0051 * terms * max(1, size))


@given(examples, st.data())
def test_a_number_depends_on_its_parts_and_on_nothing_else_beside_them(asked: dict, data: st.DataObject) -> None:
    example = SentenceExample(**asked)
    found = compute_steps(example)
    matrix = data.draw(st.sampled_from([matrix for matrix in found.matrices.values() if matrix.sources]))
    row, column = (data.draw(st.integers(0, size - 1)) for size in matrix.values.shape)
    source = data.draw(st.sampled_from(matrix.sources))
    i, j = (data.draw(st.integers(0, size - 1)) for size in source.values.shape)
    assume(bool(source.values[i, j].isfinite()))
    lit = any(
        part.matrix == source.name and i in part.rows and j in part.columns for part in matrix.operands(row, column)
    )
    edited = source.values.clone()
    edited[i, j] -= 0.5  # lower, so that it does not become the greatest of its row
    changed = matrix.operation(*(edited if one is source else one.values for one in matrix.sources))
    if not lit:
        assert changed[row, column] == matrix.values[row, column]
    elif isinstance(matrix.operation, Product | Scaled | RowTotals | Concatenated):
        others = [one.values.flatten().abs() for one in matrix.sources if one is not source]
        assume(float(torch.cat([*others, torch.ones(1)]).min()) > 1e-6)  # times 0, nothing is seen
        assert changed[row, column] != matrix.values[row, column]


@given(examples, st.data())
def test_edits_are_kept_and_everything_after_them_follows(asked: dict, data: st.DataObject) -> None:
    example = SentenceExample(**asked)
    whole = compute_steps(example)
    # A row that was made to add up to 0 is refused, which has a test of its own.
    names = [name for name in whole.matrices if not name.startswith(("exp", "sum"))]
    edits = drawn_edits(data, whole, names) | data.draw(
        st.sampled_from([{}, {"exp0": {(0, 0): 0.25}, "sum0": {(1, 0): -3.0}}])
    )
    found = compute_steps(example, edits)
    for name, matrix in found.matrices.items():
        own = edits.get(name, {})
        expected = matrix.operation(*(found.matrices[source.name].values for source in matrix.sources))
        for at, value in own.items():
            assert matrix.edited[at]
            assert matrix.formula(*at).startswith(f"{cell_number(value)}, written by hand instead of ")
            assert matrix.operands(*at) == ()
            expected[at] = value
        assert int(matrix.edited.sum()) == len(own)
        assert torch.equal(matrix.values, expected)
        if not any(edits):
            assert torch.equal(matrix.values, whole.matrices[name].values)


def test_the_greatest_of_a_row_is_subtracted_and_changes_no_weight() -> None:
    found = compute_steps(SentenceExample())
    assert re.fullmatch(r"exp\(\S+ − \S+\) = \d\.\d\d", found.matrices["exp0"].formula(1, 2))
    scaled = found.matrices["scaled0"].values
    torch.testing.assert_close(found.matrices["weights0"].values, scaled.exp() / scaled.exp().sum(-1, keepdim=True))
    assert torch.equal(found.matrices["exp0"].values.amax(-1), torch.ones(4, dtype=torch.float64))
    edited = compute_steps(SentenceExample(), {"scaled0": {(0, 0): 1000.0}}).matrices  # exp(1000) would be infinite
    assert edited["weights0"].values[0].tolist() == [1, 0, 0, 0]


def test_a_row_that_sees_no_key_has_weights_and_an_output_of_zero() -> None:
    example = SentenceExample("a b c", second="x y", mask=SlidingWindow(1))
    found = compute_steps(example)
    assert found.matrices["weights0"].values[2].tolist() == [0, 0]
    assert found.matrices["output0"].values[2].tolist() == [0, 0, 0, 0]
    assert found.matrices["masked0"].formula(2, 1).endswith(" + (−∞) = −∞")
    assert found.matrices["exp0"].formula(2, 1) == "exp(−∞) = 0.00"
    agrees_with_mechanism(found)


def test_stages_come_in_the_order_of_the_computation() -> None:
    assert compute_steps(SentenceExample()).stages == (
        "queries",
        "keys",
        "similarity",
        "scaling",
        "exp",
        "softmax",
        "values",
        "output",
    )
    every = SentenceExample(heads=2, mask=Causal(), biases=(ALiBi(),))
    assert compute_steps(every).stages == (
        "queries",
        "keys",
        "similarity",
        "scaling",
        "biases",
        "mask",
        "exp",
        "softmax",
        "values",
        "output",
        "heads",
        "projection",
        "contributions",
    )


@given(examples)
def test_what_each_head_adds_comes_to_the_product_with_the_output_matrix(asked: dict) -> None:
    heads, d_v = asked["heads"], asked["d_k"]
    found = compute_steps(SentenceExample(**asked)).matrices
    if heads == 1:
        assert "WO" not in found
        return
    weight = found["WO"].values
    assert weight.shape == (heads * d_v, WIDTH)
    torch.testing.assert_close(found["multihead"].values, found["heads"].values @ weight)
    for head in range(heads):
        own = weight[head * d_v : (head + 1) * d_v]
        torch.testing.assert_close(found[f"part{head}"].values, found[f"output{head}"].values @ own)
    torch.testing.assert_close(found["total"].values, found["multihead"].values)


def test_the_part_of_a_head_has_its_own_rows_of_the_output_matrix() -> None:
    found = compute_steps(SentenceExample(heads=2, d_k=3)).matrices
    assert [(one.matrix, one.rows, one.columns) for one in found["part1"].operands(2, 1)] == [
        ("output1", range(2, 3), range(3)),
        ("WO", range(3, 6), range(1, 2)),
    ]
    assert [one.matrix for one in found["total"].operands(0, 0)] == ["part0", "part1"]
    changed = compute_steps(SentenceExample(heads=2, d_k=3), {"WO": {(4, 1): 9.0}}).matrices
    assert torch.equal(changed["part0"].values, found["part0"].values)
    assert not torch.equal(changed["part1"].values, found["part1"].values)


def test_what_is_invented_says_so_beside_its_numbers() -> None:
    for example in (SentenceExample(heads=2), SentenceExample(second="a b")):
        given_numbers = [one for one in compute_steps(example).matrices.values() if not one.sources]
        assert all("drawn " in one.about for one in given_numbers)
        assert "means nothing" in given_numbers[0].about


def test_a_head_is_shown_with_all_sources_but_those_of_other_heads() -> None:
    found = compute_steps(SentenceExample(heads=3))
    for head in range(3):
        shown = found.for_head(head)
        names = {matrix.name for matrix in shown}
        assert {f"output{i}" for i in range(3)} | {"X", "heads", f"weights{head}"} <= names
        for matrix in shown:
            if matrix.name not in {f"output{i}" for i in range(3) if i != head}:
                assert {source.name for source in matrix.sources} <= names


def test_heads_and_sentences_have_numbers_of_their_own() -> None:
    found = compute_steps(SentenceExample("a b a", second="a c", heads=2)).matrices
    assert not torch.equal(found["Wq0"].values, found["Wq1"].values)
    assert found["X"].rows == ("a", "b", "a")
    assert found["Y"].rows == ("a", "c")
    assert torch.equal(found["X"].values[0], found["Y"].values[0])
    assert not torch.equal(found["X"].values[0], found["X"].values[2])  # the same word at another place
    assert found["weights1"].columns == ("a", "c")
    assert found["X"].values.shape == (3, WIDTH)


@pytest.mark.parametrize(
    ("example", "said"),
    [
        ({"text": "one"}, "has 1 word; every number of 2 to 8 words can be shown. Lengthen it."),
        ({"text": "w " * 9}, "has 9 words; every number of 2 to 8 words can be shown. Shorten it."),
        ({"text": " "}, "There is no text yet"),
        ({"second": ""}, "There is no text yet"),
        ({"second": "x " * 9}, "The second sentence has 9 words"),
        ({"d_k": 1}, "from 2 to 8 here; it is 1"),
        ({"heads": 5}, "From 1 to 4 heads are written out; there cannot be 5."),
    ],
)
def test_what_is_too_much_is_refused_in_words(example: dict, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        compute_steps(SentenceExample(**example))


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ({"Q0": {(0, 0): math.nan}}, "A number between −1000 and 1000 is expected; nan was written"),
        ({"Q0": {(0, 0): math.inf}}, "inf was written"),
        ({"X": {(0, 0): 1001.0}}, "1001.0 was written"),
        ({"X": {(4, 0): 1.0}}, "no row 4, column 0 in X, which is 4 × 4"),
        ({"X": {(0, -1): 1.0}}, "no row 0, column -1"),
        ({"Y": {(0, 0): 1.0}}, "There is no matrix Y here. The matrices are X, Wq0"),
        ({"sum0": {(1, 0): 0.0}}, "A row would add up to 0"),
    ],
)
def test_edits_that_are_no_numbers_or_have_no_place_are_refused_in_words(edits: Edits, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        compute_steps(SentenceExample(), edits)


@given(st.data())
def test_edits_survive_a_link(data: st.DataObject) -> None:
    example, names = data.draw(
        st.sampled_from(
            [
                (SentenceExample(heads=4, d_k=8), ["X", "Wq3", "heads", "weights0"]),
                (TranslatorExample(EXAMPLES[5], "general"), ["Q0", "W", "weights0"]),  # of 13 rows and 16 columns
            ]
        )
    )
    edits = drawn_edits(data, whole(example), names)
    assert parse_edits(format_edits(edits)) == edits
    assert re.fullmatch(r"[\w.~-]*", format_edits(edits))  # nothing that a link would write otherwise


@given(st.text(max_size=30) | st.from_regex(r"[A-Z]+\d?\.\d\.\d\d?_[-\d.e]+", fullmatch=True))
def test_any_text_is_read_as_edits_or_refused_in_words(text: str) -> None:
    try:
        edits = parse_edits(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"(is expected, row 0 and column 3 of X|Write one such as 0.5)\.$"):
            parse_edits(text)
    else:
        assert parse_edits(format_edits(edits)) == edits


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.415, "0.41"),
        (-1.5, "−1.50"),
        (0.0, "0.00"),
        (-0.0, "0.00"),
        (-0.004, "−0.004"),
        (2e-7, "0.0000002"),
        (-math.inf, "−∞"),
        (1000.0, "1000.00"),
    ],
)
def test_numbers_as_they_are_read(value: float, said: str) -> None:
    assert cell_number(value) == said
