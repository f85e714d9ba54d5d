"""Programs to take away, run as they are written: in other processes, and by themselves."""

import ast
import operator
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnviz import Inputs, Mechanism, export
from attnviz.biases import BIASES, KERPLE, ALiBi, Bias, Sandwich, SoftCap, SSMax, T5Buckets
from attnviz.export import EXPORTS, dense_check
from attnviz.masks import (
    MASKS,
    Band,
    BigBird,
    Causal,
    Compare,
    Documents,
    Full,
    Mask,
    Padding,
    Shifted,
    Sinks,
    SlidingWindow,
    Tree,
)
from attnviz.masks.grid import Grid
from attnviz.masks.mask import Symbol
from attnviz.masks.terms import Arithmetic, Function, Lookup, Number, Variable
from attnviz.normalizers import (
    NORMALIZERS,
    Differential,
    Entmax,
    Hard,
    Identity,
    Normalizer,
    ReLU,
    Sigmoid,
    Sink,
    Softmax,
    SoftmaxPlusOne,
    Softpick,
    Sparsemax,
    StickBreaking,
    TopK,
    Uniform,
)
from attnviz.scores import SCORES, Additive, Cosine, Dot, General, ScaledDot, Score

# beartype looks at a random item of a tuple, which Hypothesis would rather draw itself.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

FLEX, SDPA, NUMPY = EXPORTS

# Runs all scripts of a folder as a person would, each with what it prints beside it, and then on the numbers, if any.
RUN = """
import contextlib, pathlib, sys, traceback
def run(path):
    # As the main module, where the compiler of torch looks for names.
    names = vars(sys.modules["__main__"])
    for name in set(names) - kept:
        del names[name]
    try:
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    except AssertionError:
        traceback.print_exc(file=sys.stdout)
    return names.get("attention")
def run_all(folder):
    for path in sorted(folder.glob("*.py")):
        is_torch, is_flex = not path.stem.startswith("NumPy"), path.stem.startswith("FlexAttention")
        numbers, is_traced = path.with_suffix(".npz"), "quick" not in path.stem
        if is_torch:
            import torch
            torch.set_num_threads(1)
        if is_flex:
            from torch.nn.attention import flex_attention
            torch._dynamo.reset()
            flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = numbers.exists() or not is_traced
        with open(path.with_suffix(".txt"), "w", encoding="utf-8") as said, contextlib.redirect_stdout(said):
            attention = run(path)
        if numbers.exists():
            import numpy as np
            if is_flex:
                flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = not is_traced
            given = [np.load(numbers)[name] for name in ("query", "key", "value")]
            output = attention(*map(torch.from_numpy, given)) if is_torch else attention(*given)
            np.save(path.with_suffix(".npy"), np.asarray(output))
        assert is_torch or "torch" not in sys.modules
kept = {*globals(), "kept"}
run_all(pathlib.Path(sys.argv[1]))
"""


@dataclass(frozen=True)
class Case:
    """A mechanism, and the sizes of what it attends to."""

    mechanism: Mechanism
    queries: int = 13
    keys: int = 13
    heads: int = 3
    kv_heads: int = 3

    @property
    def sizes(self):
        return {"heads": self.heads, "kv_heads": self.kv_heads, "width": 4}

    @property
    def inputs(self):
        generator = torch.Generator().manual_seed(1)
        shapes = ((self.heads, self.queries, 4), (self.kv_heads, self.keys, 4), (self.kv_heads, self.keys, 5))
        query, key, value = (torch.randn(shape, generator=generator) for shape in shapes)
        return Inputs(query, key, value, ("",) * self.queries, ("",) * self.keys)


def compare(*terms):
    """Terms and signs in turn: compare(0, "<=", q, "<", k)."""
    return Compare(tuple(map(number, terms[::2])), terms[1::2])


def number(term):
    return Number(term) if isinstance(term, int) else term


def made(sign, left, right):
    return Arithmetic(sign, number(left), number(right))


Q, K, H = map(Variable, "qkh")
WEIGHT = torch.linspace(-1, 1, 16).reshape(4, 4)
COMBINED = [
    ~Full(),
    Full() & Causal() | ~Full(),
    SlidingWindow(0),
    SlidingWindow(4) | Sinks(2),
    ~(Causal() & ~Band(2)) | Padding(2) & ~~Band(3),
    ~(Causal() | Band(1)) & ~Padding(3),
    Shifted(Shifted(Causal(), 4), -3),
    Shifted(Causal("bottom right"), -1),
    Padding(tuple(i % 3 != 1 for i in range(13))),
    BigBird(block=2, random=3, seed=5),
    Documents((2, 6), Band(1)),
    Grid.from_array([[(i * j + i) % 3 == 1 for j in range(13)] for i in range(13)]),
    Tree(2, (-1, 0, 1, 2, 2, 0)),
    compare(0, "<=", made("-", Q, K), "<", 4),
    compare(made("-", Q, made("-", K, 3)), "!=", made("%", Q, made("+", H, 2))),
    compare(made("-", 0, made("*", made("-", 0, Q), 2)), ">", made("//", made("*", K, 5), made("*", 2, 2))),
    compare(Function("min", (Q, K)), ">=", Function("max", (made("-", Q, 4), H))),
    compare(Function("min", (Function("max", (made("-", Q, K), Number(-2))), Number(1))), "==", made("%", K, 3)),
    compare(Function("abs", (made("-", made("*", Q, 2), K),)), "<=", made("+", -3, made("+", H, 5))),
    compare(made("%", made("-", H, 3), 5), ">", K),
    compare(K, "<=", made("-", made("-", made("+", Q, 1), 3), -4)),
    compare(made("-", made("-", Q, 2), 3), ">=", made("-", K, 3)),
    compare(Lookup((3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9), K), ">", Q),
]
CASES = {
    **{f"{mask.__name__} {n}×{m}": Case(Mechanism(mask=mask()), n, m) for mask in MASKS for n, m in ((13, 13), (5, 9))},
    **{f"combined {i}": Case(Mechanism(mask=mask)) for i, mask in enumerate(COMBINED)},
    "grouped": Case(Mechanism(Cosine(), (ALiBi(),), Causal()), 5, 9, 6, 2),
}
for kind, several in {
    "biases": [
        (ALiBi(),),
        (ALiBi("symmetric"),),
        (T5Buckets(seed=3),),
        (T5Buckets("causal", 8, 16),),
        (T5Buckets("bidirectional", 4, 16, table=WEIGHT[:, :3]),),
        (KERPLE(),),
        (KERPLE("power", 0.5, 1.5),),
        (Sandwich(8),),
        (SoftCap(2.0),),
        (SSMax(),),
        (T5Buckets(), SoftCap(3.0), T5Buckets(seed=1), SSMax(2.0)),
        (KERPLE(), ALiBi(), Sandwich()),
    ],
    "score": [
        ScaledDot(),
        ScaledDot(-0.5),
        ScaledDot(0.0),
        Dot(),
        Cosine(),
        Cosine(0.07),
        General(),
        General(seed=2),
        General(WEIGHT),
        Additive(),
        Additive(seed=3, hidden=2),
        Additive(WEIGHT, WEIGHT.T, torch.ones(4)),
    ],
    "normalizer": [
        Softmax(),
        Softmax(0.1),
        Softmax(7.0),
        Hard(),
        Uniform(),
        Identity(),
        SoftmaxPlusOne(),
        Sink(-0.5),
        Sink(torch.tensor([0.5, -2.0, 3.0])),
        Sink(torch.tensor(1.5)),
        Sparsemax(),
        Entmax(1.0),
        Entmax(),
        Entmax(4.0),
        TopK(1),
        TopK(3),
        TopK(99),
        Sigmoid(),
        ReLU(),
        Softpick(),
        StickBreaking(),
        Differential(),
    ],
}.items():
    for i, part in enumerate(several):
        for mask in (Full(), SlidingWindow(3) & ~Padding(1)):  # the first query sees none
            CASES[f"{kind} {i} {mask!r}"] = Case(Mechanism(mask=mask, **{kind: part}), 5, 9)
for name, more in {"and scale": {"score": Cosine(0.5)}, "alone": {}}.items():
    for biases in ((), (ALiBi(), KERPLE()), (SoftCap(2.0),)):
        CASES[f"temperature {name} {biases!r}"] = Case(Mechanism(biases=biases, normalizer=Softmax(0.5), **more))
CASES["SSMax for each head"] = Case(Mechanism(biases=(SSMax(),), mask=compare(K, "<=", made("+", Q, H))), 5, 9)
CASES["uniform, whatever is before"] = Case(Mechanism(General(), (SoftCap(),), Causal(), Uniform()))

NOT_ADDED = "scaled_dot_product_attention can only add to scores, and {} changes them in another way."
NO_DOTS = "{} compares by dot products, and Additive is a small network. Take NumPy."
NO_SOFTMAX = "{} always takes a softmax, and {} is another normalizer. Take NumPy."


def refusal(kind, mechanism):
    """What a script of this kind cannot do, as the sentence that says so."""
    function = {FLEX: "FlexAttention", SDPA: "scaled_dot_product_attention"}.get(kind)
    if not function and isinstance(mechanism.normalizer, Differential):
        return "Differential compares two halves of every head, and an export here has one map of scores."
    if function and not isinstance(mechanism.normalizer, Softmax | Uniform):
        return NO_SOFTMAX.format(function, type(mechanism.normalizer).__name__)
    if function and isinstance(mechanism.score, Additive):
        return NO_DOTS.format(function)
    others = [type(bias).__name__ for bias in mechanism.biases if isinstance(bias, SoftCap | SSMax)]
    return NOT_ADDED.format(others[0]) if kind == SDPA and others and mechanism.normalizer != Uniform() else None


@cache
def script(kind, name):
    case = CASES[name]
    return EXPORTS[kind](case.mechanism, case.queries, case.keys, **case.sizes)


def file_of(kind, name):
    """The name of a script's file. FlexAttention traces each before it runs, which takes long: quick ones it only
    runs."""
    traced = name.endswith("13×13") or (CASES[name].mechanism.biases and CASES[name].mechanism.mask != Full())
    return stem(kind, f"{'traced' if traced else 'quick'}_{list(CASES).index(name)}")


def stem(kind, name):
    return re.sub(r"\W", "", kind) + "_" + name


WRITTEN = [(kind, name) for kind in EXPORTS for name, case in CASES.items() if not refusal(kind, case.mechanism)]
CAUSAL_ALIBI = Mechanism(biases=(ALiBi(),), mask=Causal())
MISTAKES = {"mask": ("kv_idx <= q_idx", "kv_idx < q_idx"), "scores": ("0.25", "0.26")}


def wrong(kind, mistake):
    """A script with a mistake in the rule of its mask, or in the scores, where there are others to compare with."""
    right, other = MISTAKES[mistake]
    text = EXPORTS[kind](CAUSAL_ALIBI, 6, 6, heads=4, width=8)
    assert right in text
    before, reference, after = text.partition("def dense_scores")
    slopes = before.replace("slopes[h]", "2 * slopes[h]") if mistake == "scores" else before
    return text.replace(right, other) if slopes == before else slopes + reference + after


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder of all scripts of each kind, with the numbers they are to run on."""
    folders = {kind: tmp_path_factory.mktemp(f"scripts{i}") for i, kind in enumerate(EXPORTS)}
    for kind, write in EXPORTS.items():
        texts = {
            "alone": write(CAUSAL_ALIBI, 5, 7, heads=4, kv_heads=2, width=8),
            "long_quick": write(CAUSAL_ALIBI, 1500, 1500, heads=2, width=8),
            **{f"wrong_{mistake}_quick": wrong(kind, mistake) for mistake in MISTAKES},
        }
        for name, text in texts.items():
            (folders[kind] / f"{stem(kind, name)}.py").write_text(text, encoding="utf-8")
    for kind, name in WRITTEN:
        path = folders[kind] / f"{file_of(kind, name)}.py"
        path.write_text(script(kind, name), encoding="utf-8")
        inputs = CASES[name].inputs
        np.savez(path.with_suffix(".npz"), query=inputs.query[None], key=inputs.key[None], value=inputs.value[None])
    return folders


@pytest.fixture(scope="module")
def ran(folders):
    """A function that returns the folder of a kind after its scripts ran, in a process that knows nothing of attnviz;
    that of NumPy is without torch."""

    @cache
    def run(kind):
        command = [sys.executable, "-I", "-W", "ignore", "-c", RUN, str(folders[kind])]
        subprocess.run(command, check=True, cwd=folders[kind], timeout=300)
        return folders[kind]

    return run


@pytest.mark.parametrize(("kind", "name"), WRITTEN)
def test_a_script_gives_what_the_mechanism_gives(ran, kind, name):
    expected = CASES[name].mechanism(CASES[name].inputs).output
    actual = torch.from_numpy(np.load(ran(kind) / f"{file_of(kind, name)}.npy"))[0].float()
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def test_everything_of_the_menus_is_tried():
    mechanisms = [case.mechanism for case in CASES.values()]
    assert {type(mechanism.mask) for mechanism in mechanisms} >= set(MASKS)
    assert {type(bias) for mechanism in mechanisms for bias in mechanism.biases} >= set(BIASES)
    assert {type(mechanism.score) for mechanism in mechanisms} >= set(SCORES)
    assert {type(mechanism.normalizer) for mechanism in mechanisms} >= set(NORMALIZERS)


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in EXPORTS for name in CASES if (kind, name) not in WRITTEN]
)
def test_what_a_function_cannot_do_is_refused_in_words(kind, name):
    with pytest.raises(ValueError, match=re.escape(refusal(kind, CASES[name].mechanism))):
        script(kind, name)


def printed(folder, kind, name):
    return (folder / f"{stem(kind, name)}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", EXPORTS)
def test_a_script_runs_by_itself_and_says_its_shapes(ran, kind):
    said = printed(ran(kind), kind, "alone")
    assert "output (1, 4, 5, 8)\n" in said
    assert ("weights (1, 4, 5, 7)\n" in said) == (kind == NUMPY)
    agreement = "weights of 5 queries and 7 keys agree with a dense softmax\n"
    assert (agreement in said) == (kind != NUMPY)


@pytest.mark.parametrize("kind", EXPORTS)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_script_whose_weights_are_wrong_fails(ran, kind, mistake):
    """A mistake in the function alone shows in the weights; one in the rule of the mask, in the count of pairs."""
    assert "AssertionError" in printed(ran(kind), kind, f"wrong_{mistake}_quick")


@pytest.mark.parametrize("kind", EXPORTS)
def test_a_long_script_compares_some_of_its_weights_or_none(ran, kind):
    agreement = {NUMPY: "weights (1, 2, 1500, 1500)"}.get(kind, "weights of 500 queries and 63 keys agree with a dense")
    assert agreement in printed(ran(kind), kind, "long_quick")


def test_scores_that_do_not_fit_in_memory_take_a_compiled_kernel():
    for kind, write in EXPORTS.items():
        for mask, names in ((Full(), ["flex_attention"]), (Causal(), ["flex_attention", "create_block_mask"])):
            text = write(Mechanism(mask=mask), 131_072, 131_072, heads=12, width=64)
            assert "All scores in single precision take 768 GB of memory." in text
            compiled = re.findall(r"^(\w+) = torch.compile\((\w+)\)$", text, re.MULTILINE)
            assert compiled == [(name, name) for name in names if kind == FLEX]


def test_scripts_are_lint_clean(folders):
    for folder in folders.values():
        command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "E,F,W,I", "--line-length", "100"]
        ran = subprocess.run([*command, str(folder)], capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stdout


WORDS = set(
    re.findall(
        r"\w+",
        """
        torch np nn attention flex_attention functional scaled_dot_product_attention create_block_mask create_mask
        device cuda is_available tensor array randn Generator manual_seed to float float64 dtype arange eye expand
        new_zeros shape T normalize linalg norm random default_rng standard_normal repeat swapaxes broadcast_to any abs
        clamp clip minimum maximum tanh cos log log1p exp where inf max sum print tuple attention_weights mask_mod
        score_mod b h q_idx kv_idx query key value score scores allowed bias weight weights output block_mask identity
        greatest total seen factor place slopes common wavelengths bucket learned query_weight key_weight vector
        from_query from_key table __name__ astype full zeros range _ low high middle over last sort logaddexp left
        cumsum sink dense_scores rows columns expected softmax nan_to_num testing assert_close assert_allclose mean
        dtype repeat_interleave compile
        """,
    )
)
TEXTS = {
    "cuda",
    "cpu",
    "__main__",
    "output",
    "weights",
    "the mean of weight × position agrees with attnviz in every head",
}
TEXTS |= {text.strip('"') for text in (export.OUTPUT, export.WEIGHTS, dense_check.SCORES)}
AGREEMENT = re.compile("weights of [0-9]+ queries and [0-9]+ keys agree with a dense softmax")


@pytest.mark.parametrize(("kind", "name"), WRITTEN)
def test_a_script_is_made_of_numbers_and_known_words(kind, name):
    for node in ast.walk(ast.parse(script(kind, name))):
        match node:
            case ast.Name(word) | ast.Attribute(attr=word) | ast.FunctionDef(word) | ast.arg(word):
                assert re.sub(r"_\d+$", "", word) in WORDS
            case ast.Constant(str(text)):
                assert text in TEXTS or AGREEMENT.fullmatch(text)
            case ast.Constant(value):
                assert value in (None, ...) or isinstance(value, int | float)
            case ast.ImportFrom(module) | ast.Import([ast.alias(module)]):
                assert module in ("torch", "numpy", "torch.nn.functional", "torch.nn.attention.flex_attention")


@dataclass(frozen=True)
class Described(Mask):
    sentence: str

    def __call__(self, b, h, q, k):
        return k <= q

    def condition(self):
        return self.sentence


@pytest.mark.parametrize("kind", EXPORTS)
def test_a_description_stays_a_comment(kind):
    plain, nasty = (
        EXPORTS[kind](Mechanism(mask=Described(sentence)), 4, 4)
        for sentence in ("it is so", 'x\nimport os\r\n"""\x0c\x85\u2028import sys\\\n' + "word " * 60)
    )
    assert ast.dump(ast.parse(plain)) == ast.dump(ast.parse(nasty))
    assert max(map(len, nasty.splitlines())) <= 100


def test_a_name_that_is_no_position_is_refused():
    with pytest.raises(ValueError, match="There is no code for"):
        export.numpy(Mechanism(mask=Named()), 4, 4)


class Named(Described):
    def __init__(self):
        super().__init__("it is so")

    def __call__(self, b, h, q, k):
        return Symbol(Compare((Variable("__import__('os')"), Number(3)), ("<",)))


@pytest.mark.parametrize("kind", EXPORTS)
@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ({"biases": (Bias(),)}, "There is no code for the bias Bias."),
        ({"score": Score()}, "There is no code for the score Score."),
    ],
)
def test_what_has_no_code_is_said(kind, part, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        EXPORTS[kind](Mechanism(**part), 4, 4)


def test_a_normalizer_without_code_is_said():
    with pytest.raises(ValueError, match=re.escape("There is no code for the normalizer Normalizer.")):
        export.numpy(Mechanism(normalizer=Normalizer()), 4, 4)


def test_weights_too_many_to_write_out_are_refused_and_torch_draws_them():
    with pytest.raises(ValueError, match=re.escape("weight holds 4096 numbers, too many to write into code")):
        export.numpy(Mechanism(General()), 4, 4, width=64)
    assert len(export.sdpa(Mechanism(General()), 4, 4, width=64)) < 2000


@pytest.mark.parametrize("kind", EXPORTS)
def test_a_mask_with_too_many_numbers_for_code_is_refused(kind):
    with pytest.raises(ValueError, match=r"lists of this mask hold 1,048,\d\d\d numbers, .* Take fewer tokens\."):
        EXPORTS[kind](Mechanism(mask=BigBird(2, 8)), 131_072, 131_072, heads=2)


def test_heads_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match=re.escape("4 heads of queries cannot share 3 of keys evenly.")):
        export.sdpa(Mechanism(), 4, 4, heads=4, kv_heads=3)


@pytest.mark.parametrize(
    ("mask", "line"),
    [
        (Causal(), "return kv_idx <= q_idx"),
        (Causal("bottom right"), "return kv_idx <= q_idx + 4"),
        (~Causal(), "return kv_idx > q_idx"),
        (SlidingWindow(4), "return (kv_idx <= q_idx) & (q_idx - kv_idx <= 3)"),
        (Band(2), "return abs(q_idx - kv_idx) <= 2"),
        (Full() & Padding(3), "return kv_idx < 3"),
        (Shifted(Causal(), 0), "return kv_idx <= q_idx"),
    ],
    ids=repr,
)
def test_rules_read_as_a_person_would_write_them(mask, line):
    assert f"    {line}\n" in export.flex_attention(Mechanism(mask=mask), 5, 9)


def test_nothing_is_written_for_a_mask_that_allows_everything():
    for write in EXPORTS.values():
        assert not re.search(r"mask|allowed", write(Mechanism(), 5, 9))


NUMBERS = st.builds(Number, st.integers(-3, 6))
TERMS = st.recursive(
    st.sampled_from([Q, K, H]) | NUMBERS,
    lambda inner: (
        st.builds(Arithmetic, st.sampled_from("+-*"), inner, inner)
        | st.builds(Arithmetic, st.sampled_from(["//", "%"]), inner, st.builds(Number, st.integers(1, 5)))
        | st.builds(lambda name, a, b: Function(name, (a, b)), st.sampled_from(["min", "max"]), inner, inner)
        | st.builds(lambda a: Function("abs", (a,)), inner)
    ),
    max_leaves=6,
)
SIGNS = st.sampled_from(["<", "<=", "==", "!=", ">=", ">"])
COMPARED = st.builds(compare, TERMS, SIGNS, TERMS) | st.builds(compare, TERMS, SIGNS, TERMS, SIGNS, TERMS)
ANY = st.recursive(
    COMPARED | st.just(Full()) | st.sampled_from([mask() for mask in MASKS]),
    lambda inner: (
        st.builds(operator.and_, inner, inner) | st.builds(operator.or_, inner, inner) | st.builds(operator.inv, inner)
    ),
    max_leaves=6,
)


@settings(max_examples=100)
@given(ANY, st.integers(1, 7), st.integers(1, 7))
def test_any_rule_allows_in_a_script_what_the_mask_allows(mask, queries, keys):
    names = {}
    exec(export.numpy(Mechanism(mask=mask, normalizer=Uniform()), queries, keys, heads=3, width=1), names)
    weights = names["attention_weights"](np.zeros((1, 3, queries, 1)), np.zeros((1, 3, keys, 1)))
    b, h = torch.tensor(0), torch.arange(3)[:, None, None]
    allowed = mask.bind(queries, keys, 1)(b, h, torch.arange(queries)[:, None], torch.arange(keys))
    assert np.array_equal(weights[0] > 0, allowed.expand(3, queries, keys).numpy())
