"""Tables as pandas, R and spreadsheets write them: no name is taken for a number, and no number for a name."""

import io
import json

import numpy as np
import pandas as pd
import pytest

from attnviz.sources.files import read_file
from attnviz.sources.upload import File, Upload, from_arrays
from tests.support.array_files import npz

MATRIX = np.array([[0.25, -1.5, 3.0], [2.0, 0.5, 0.75]])
WORDS = ["the", "cat"]


def csv(frame: pd.DataFrame, **options: object) -> bytes:
    return frame.to_csv(**options).encode()


def parquet(frame: pd.DataFrame, **options: object) -> bytes:
    file = io.BytesIO()
    frame.to_parquet(file, **options)
    return file.getvalue()


PLAIN, NAMED = pd.DataFrame(MATRIX), pd.DataFrame(MATRIX, columns=["d0", "d1", "d2"])
READ = {
    "pandas": (csv(PLAIN), ("0", "1")),
    "pandas, columns with names": (csv(NAMED), ("0", "1")),
    "pandas without an index": (csv(NAMED, index=False), None),
    "pandas without anything": (csv(PLAIN, index=False, header=False), None),
    "a filtered index": (csv(NAMED.set_axis([7, 3])), ("7", "3")),
    "an index of floats": (csv(PLAIN.set_axis([0.0, 1.0])), ("0.0", "1.0")),
    "columns of floats": (csv(PLAIN.set_axis([0.0, 1.0, 2.0], axis=1)), ("0", "1")),
    "columns from 1": (csv(PLAIN.set_axis([1, 2, 3], axis=1)), ("0", "1")),
    "an index called index": (csv(NAMED, index_label="index"), ("0", "1")),
    "an index called Idx": (csv(NAMED.set_axis([5, 9]), index_label="Idx"), ("5", "9")),
    "an index called id": (csv(NAMED, index_label="id"), ("0", "1")),
    "an index that was read back": (csv(NAMED.reset_index(names="Unnamed: 0"), index=False), ("0", "1")),
    "words": (csv(PLAIN.set_axis(WORDS)), tuple(WORDS)),
    "words with a name": (csv(NAMED.set_axis(WORDS), index_label="word"), tuple(WORDS)),
    "words that are numbers": (csv(NAMED.set_axis([2024, 1066]), index_label="token"), ("2024", "1066")),
    "R": (b'"d0","d1","d2"\n"1",0.25,-1.5,3\n"2",2,0.5,0.75', ("1", "2")),
    "R with words": (b'"d0","d1","d2"\n"the",0.25,-1.5,3\n"cat",2,0.5,0.75', tuple(WORDS)),
    "write.csv of R": (b'"","V1","V2","V3"\n"1",0.25,-1.5,3\n"2",2,0.5,0.75', ("1", "2")),
    "a line of Excel": (b"sep=,\nd0,d1,d2\n0.25,-1.5,3\n2,0.5,0.75", None),
    "a byte order mark": (b"\xef\xbb\xbf" + csv(NAMED), ("0", "1")),
}


@pytest.mark.parametrize(("data", "tokens"), READ.values(), ids=READ)
def test_headers_and_indices_are_no_numbers(data: bytes, tokens: tuple[str, ...] | None) -> None:
    for name, content in (("a.csv", data), ("a.tsv", data.replace(b",", b"\t"))):
        contents = read_file(name, content)
        np.testing.assert_array_equal(contents.arrays["vectors"], MATRIX.astype("f4"))
        assert contents.tokens.get("tokens") == tokens


COUNTED = np.array([[0, 1, 2], [1, 5, 3]])
ALIKE = {
    "d": ("d0,d1,d2", COUNTED),
    "V from 1": ("V1,V2,V3", COUNTED),
    "numbers": ("dim 0,dim 1,dim 2", COUNTED),
    "letters": ("x,y,z", COUNTED),
}


@pytest.mark.parametrize(("header", "matrix"), ALIKE.values(), ids=ALIKE)
def test_numbers_that_count_are_read_where_columns_have_names_alike(header: str, matrix: np.ndarray) -> None:
    data = pd.DataFrame(matrix, columns=header.split(",")).to_csv(index=False).encode()
    np.testing.assert_array_equal(read_file("a.csv", data).arrays["vectors"], matrix)


HEADER = (
    r"^Row 1 counts {}, so it may be a header or numbers\. If it is a header, delete it; if it holds numbers, write "
)
INDEX = (
    r"^The first column counts {}, so it may be an index or numbers\. If it is an index, delete it; if it holds numb"
)
LONG = np.arange(40.0).reshape(8, 5) / 7
REFUSED = {
    "a header": (csv(PLAIN, index=False), HEADER.format("0, 1, 2")),
    "a header of floats": (csv(PLAIN.set_axis([0.0, 1.0, 2.0], axis=1), index=False), HEADER.format("0, 1, 2")),
    "a header from 1": (csv(PLAIN.set_axis([1, 2, 3], axis=1), index=False), HEADER.format("1, 2, 3")),
    "a header above whole numbers": (b"0,1\n1,0\n", HEADER.format("0, 1")),
    "a header beside words": (b"word,0,1,2\nthe,3,5,4\ncat,7,2,9", HEADER.format("0, 1, 2")),
    "a long header": (csv(pd.DataFrame(LONG), index=False), HEADER.format("0, 1, 2, …")),
    "an index": (csv(PLAIN, header=False), INDEX.format("0, 1")),
    "an index from 1": (csv(PLAIN.set_axis([1, 2]), header=False), INDEX.format("1, 2")),
    "an index of floats": (csv(PLAIN.set_axis([0.0, 1.0]), header=False), INDEX.format("0, 1")),
    "an index with a name": (csv(NAMED, index_label="word_id"), INDEX.format("0, 1")),
    "a long index": (csv(pd.DataFrame(LONG, columns=[*"abcde"]), index_label="n 1"), INDEX.format("0, 1, 2, …")),
    "an index with a name, and a header": (csv(PLAIN, index_label="row"), "“row”, which is not .* write “token” above"),
    "an index of an index": (
        csv(NAMED.reset_index(names="Unnamed: 0")),
        r"Column 2 is called “Unnamed: 0”, as an index is\. Delete it, or",
    ),
    "two indices": (csv(NAMED.set_index([[0, 1], [4, 5]])), "Column 2 is called “”, as an index is"),
    "a number that is missing": (b",0.5,0.25\n0.5,1,2", "Row 1, column 1 is empty. Write “token” there if this row is"),
    "a name that is missing": (b",3,7\nthe,1,2", "Row 1, column 1 is empty. Write “token” there if this row is"),
    "headings for two of three": (b"x,y\n1,2,3\n4,5,6", "Row 2 has 3 columns, but 2 have a heading"),
}


@pytest.mark.parametrize(("data", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_may_be_names_or_numbers_is_refused_with_both_ways(data: bytes, sentence: str) -> None:
    for name, content in (("a.csv", data), ("a.tsv", data.replace(b",", b"\t"))):
        with pytest.raises(ValueError, match=sentence):
            read_file(name, content)


SEPARATED = {
    "semicolons": ("a.csv", "token;d0;d1\na;0.1;0.2\n", "semicolons", "commas"),
    "semicolons and decimal commas": ("a.csv", "token;d0;d1\na;0,1;0,2\n", "semicolons", "commas"),
    "decimal commas without a header": ("a.csv", "0,1;0,2\n0,3;0,4\n", "semicolons", "commas"),
    "decimal commas of one column": ("a.csv", "a;0,1\nb;0,2\n", "semicolons", "commas"),
    "Excel": ("a.csv", "sep=;\r\nd0;d1\r\n0,1;0,2\r\n", "semicolons", "commas"),
    "tabs": ("a.csv", "\ufefftoken\td0\na\t0.1\n", "tabs", "commas"),
    "bars": ("a.csv", "d0|d1\n0.1|0.2\n", "vertical bars", "commas"),
    "numpy.savetxt": ("a.csv", "1.0e+00 2.0e+00\n3.0e+00 4.0e+00\n", "spaces", "commas"),
    "commas": ("a.tsv", "token,d0\na,0.1\n", "commas", "tabs"),
    "semicolons in .tsv": ("a.tsv", "0,1;0,2\n0,3;0,4\n", "semicolons", "tabs"),
}


@pytest.mark.parametrize(("name", "text", "got", "expected"), SEPARATED.values(), ids=SEPARATED)
def test_another_separator_is_refused_by_its_name(name: str, text: str, got: str, expected: str) -> None:
    sentence = (
        f"Cells of this file are separated by {got}. Save it with {expected} between them, and points for decimals."
    )
    with pytest.raises(ValueError, match=sentence.replace(".", r"\.")):
        read_file(name, text.encode())


@pytest.mark.parametrize(
    ("name", "text"), [("a.csv", '"0,5",1\n"1,5","2"'), ("a.csv", 'a,"1,000"\nb,2'), ("a.tsv", "a\t2\t0,5\nb\t1\t2")]
)
def test_decimal_commas_are_refused_with_a_point(name: str, text: str) -> None:
    with pytest.raises(
        ValueError, match=r"column \d holds “\d,\d+”. Write decimals with a point|write “token” above it"
    ):
        read_file(name, text.encode())


@pytest.mark.parametrize("text", ["x 1,2\nx 2,3", "a;b,1,2\nc,3,4", "|,1,2\n;,3,4", "New York,1,2\nL.A. 2,3,4"])
def test_separators_may_stand_in_tokens(text: str) -> None:
    assert read_file("a.csv", text.encode()).tokens["tokens"] == tuple(line.split(",")[0] for line in text.split("\n"))


def test_indices_of_parquet_are_no_numbers() -> None:
    for frame in (
        PLAIN.set_axis([*"abc"], axis=1),
        NAMED.rename_axis("word_id").set_axis([7, 3]),
        NAMED.rename_axis("word_id"),
        NAMED.reset_index(),
        NAMED.reset_index(names="Unnamed: 0"),
    ):
        found = read_file("a.parquet", parquet(frame))
        np.testing.assert_array_equal(found.arrays["vectors"], MATRIX)
        assert not found.tokens
    with pytest.raises(ValueError, match=INDEX.format("0, 1")):
        read_file("a.parquet", parquet(NAMED.reset_index(names="word_id")))
    counted = read_file("a.parquet", parquet(pd.DataFrame(COUNTED, columns=["d0", "d1", "d2"])))
    np.testing.assert_array_equal(counted.arrays["vectors"], COUNTED)


# Weights, and what may be.

WEIGHTS = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]])
TOKENS = ["the", "cat", "sat"]


def weights_of(name: str, data: bytes, **options: object) -> tuple[object, ...]:
    [layer] = Upload(File(name, data), **options).layers()
    np.testing.assert_allclose(layer.weights[0], WEIGHTS)
    assert layer.fidelity == "weights_only"
    return layer.kind, layer.inputs.query_tokens, layer.inputs.key_tokens


@pytest.mark.parametrize(
    "name",
    [
        *("weights", "Weight", "attention", "attentions", "attn", "attns", "attention_weights", "attn_weights", "att"),
        *("attentionWeights", "attention_probs", "attention.probabilities", "encoder_attentions", "cross-attentions"),
        *("attention_scores", "decoder.layers.0.self_attn", "blocks.0.attn.hook_pattern", "attn map", "softmax probs"),
    ],
)
def test_names_of_weights(name: str) -> None:
    assert weights_of("a.npz", npz(**{name: WEIGHTS}))[0] == "self"
    assert weights_of("a.json", json.dumps({name: [WEIGHTS.tolist()]}).encode())[0] == "self"
    with pytest.raises(ValueError, match="weights must lie between 0 and 1"):
        from_arrays({name: MATRIX})


@pytest.mark.parametrize(
    "name",
    ["embeddings", "x", "attention_output", "attn_out", "q_proj", "hidden_states", "attended", "weighted", "heads"],
)
def test_names_of_vectors(name: str) -> None:
    [layer] = from_arrays({name: MATRIX})
    assert layer.fidelity is None


BOTH = r"rows of this array add up to 1, so it may hold vectors or finished weights\. Choose one of the two under “Read"
MAYBE = {
    "square": WEIGHTS,
    "heads": np.stack([WEIGHTS, WEIGHTS[::-1]]),
    "layers": np.stack([WEIGHTS, WEIGHTS[::-1]])[None],
    "not square": WEIGHTS[:2],
    "one row": WEIGHTS[2:],
    "rounded": np.full((3, 3), 0.33),
    "one-hot": np.eye(3, dtype="u1"),
    "half precision": WEIGHTS.astype("f2"),
    "with an empty row": WEIGHTS * [[1], [1], [0]],
}


@pytest.mark.parametrize("array", MAYBE.values(), ids=MAYBE)
def test_rows_that_add_up_to_1_are_asked_about(array: np.ndarray) -> None:
    file = io.BytesIO()
    np.save(file, array)
    uploads = [Upload(File("a.npy", file.getvalue())), Upload(File("a.npz", npz(x=array)))]
    for layers in (
        lambda: from_arrays(array),
        lambda: from_arrays({"arr_0": array}),
        *(upload.layers for upload in uploads),
        Upload(File("a.json", json.dumps(array.tolist()).encode())).layers,
    ):
        with pytest.raises(ValueError, match=BOTH):
            layers()
    for reading, fidelity in (("vectors", None), ("weights", "weights_only")):
        for layers in (
            from_arrays(array, reading=reading),
            from_arrays({reading: array}),
            Upload(File("a.npy", file.getvalue()), reading=reading).layers(),
            Upload(File("a.npz", npz(**{reading: array}))).layers(),
        ):
            assert {layer.fidelity for layer in layers} == {fidelity}


@pytest.mark.parametrize("array", [WEIGHTS - 0.1, np.ones((3, 1)), np.zeros((3, 3)), WEIGHTS * 2, WEIGHTS.T[:2]])
def test_other_numbers_are_vectors_without_a_question(array: np.ndarray) -> None:
    assert from_arrays(array)[0].fidelity is None


def test_tables_of_weights() -> None:
    square = pd.DataFrame(WEIGHTS, TOKENS, TOKENS)
    own = ("self", tuple(TOKENS), tuple(TOKENS))
    for name, data in (
        ("a.csv", csv(square)),
        ("a.csv", csv(square, index_label="token")),
        ("a.parquet", parquet(square)),
    ):
        assert weights_of(name, data) == own
    other = square.set_axis(["le", "chat", "assis"], axis=1)
    plain = square.set_axis([0, 1, 2], axis=0).set_axis([0, 1, 2], axis=1)
    for name, write in (("a.csv", csv), ("a.parquet", parquet)):
        assert weights_of(name, write(other), reading="weights") == ("cross", tuple(TOKENS), ("le", "chat", "assis"))
        with pytest.raises(ValueError, match=BOTH):
            weights_of(name, write(other))
    with pytest.raises(ValueError, match=BOTH):
        weights_of("a.csv", csv(plain))
    assert weights_of("a.csv", csv(plain), reading="weights") == ("self", ("0", "1", "2"), ("0", "1", "2"))
    assert weights_of("a.csv", csv(plain, index=False, header=False), reading="weights")[1] == ("0", "1", "2")


@pytest.mark.parametrize(
    ("arrays", "tokens", "sentence"),
    [
        ({"weights": np.full((3, 8), 0.125)}, {"tokens": ["a"] * 8}, "but there are 3 queries. Call them key_tokens."),
        ({"q": MATRIX, "k": LONG[:, :3]}, {"tokens": ["a"] * 8}, "but there are 2 queries. Call them key_tokens."),
        ({"weights": np.full((3, 8), 0.125)}, {"key_tokens": ["a"] * 3}, "but there are 8 keys. Call them tokens."),
        ({"weights": np.full((3, 8), 0.125)}, {"tokens": ["a"] * 5}, "but there are 3 queries. Give one for each."),
        ({"weights": WEIGHTS}, {"tokens": ["a"] * 5}, "but there are 3 queries. Give one for each."),
    ],
)
def test_tokens_of_the_other_axis_are_called_by_their_name(
    arrays: dict[str, np.ndarray], tokens: dict[str, list[str]], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        from_arrays(arrays, **tokens)


@pytest.mark.parametrize("shape", [(2, 5, 4, 4, 7), (2, 1, 3, 4, 4), (3,), (1, 1, 1, 1, 2, 2)])
@pytest.mark.parametrize("name", ["weights", "attentions"])
def test_weights_of_other_axes_are_told_their_axes(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"axes \(queries, keys\), .* reshape the height × width of an image into one axis"
    ):
        Upload(File("a.npz", npz(**{name: np.full(shape, 1 / shape[-1])}))).layers()
