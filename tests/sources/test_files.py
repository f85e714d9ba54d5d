import io
import json
import pickle
import struct
import subprocess
import tracemalloc
import zipfile
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from attnviz.base.formatting import quoted
from attnviz.sources.files import Limits, read_file
from tests.support.array_files import npy, npz

MATRIX = np.array([[1, 2.5, -3], [0.25, 5, 6]], dtype=np.float32)
WORDS = ("the", "cat")
HUGE = "x" * 100_000


def header(shape, descr="<f4", order="False", version=1, body=b""):
    text = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + body


def zipped(members, **options):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **{"compression": zipfile.ZIP_DEFLATED, **options}) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file.getvalue()


def parquet(columns, **options):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


def text(content):
    return json.dumps(content).encode()


def declared(data, size):
    """The same zip, whose list of members gives another unpacked size."""
    at = data.rindex(b"PK\x01\x02") + 24
    return data[:at] + struct.pack("<I", size) + data[at + 4 :]


def marked(data, offset, value):
    """The same zip with one half-word changed in its list of members."""
    at = data.rindex(b"PK\x01\x02") + offset
    return data[:at] + struct.pack("<H", value) + data[at + 2 :]


GOOD = {
    "a.npy": npy(MATRIX),
    "a.npz": npz(vectors=MATRIX, tokens=np.array(WORDS)),
    "a.safetensors": save({"vectors": torch.from_numpy(MATRIX)}, {"tokens": json.dumps(WORDS)}),
    "a.csv": b"token,x,y,z\nthe,1,2.5,-3\ncat,0.25,5,6\n",
    "a.tsv": b"\xef\xbb\xbfthe\t1\t2.5\t-3\r\ncat\t0.25\t5\t6\r\n",
    "a.json": text({"vectors": MATRIX.tolist(), "tokens": WORDS}),
    "a.parquet": parquet({"word": WORDS, "x": [1, 0.25], "y": [2.5, 5], "z": [-3, 6]}),
}


@pytest.mark.parametrize("name", GOOD)
def test_every_format_gives_the_same_numbers_and_tokens(name):
    contents = read_file(name.upper(), GOOD[name])
    assert contents.tokens == ({} if name == "a.npy" else {"tokens": WORDS})
    assert list(contents.arrays) == ["vectors"]
    assert contents.arrays["vectors"].dtype == np.float32
    np.testing.assert_array_equal(contents.arrays["vectors"], MATRIX)


@pytest.mark.parametrize("kind", ["f2", "f4", ">f8", "g", "i1", ">i4", "u8", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_npy_of_any_plain_type_order_and_version(kind, order, version):
    array = np.array(np.arange(24).reshape(2, 3, 4) % 5, dtype=kind, order=order)
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version)
    np.testing.assert_array_equal(read_file("a.npy", file.getvalue()).arrays["vectors"], array.astype(np.float32))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.uint8, torch.bool])
def test_safetensors_of_any_plain_type(kind):
    tensor = torch.tensor([[0, 1, 1], [1, 0, 1]]).to(kind)
    found = read_file("a.safetensors", save({"Q": tensor, "k": tensor.clone()}))
    assert set(found.arrays) == {"q", "k"}
    np.testing.assert_array_equal(found.arrays["q"], tensor.float().numpy())


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_parquet_columns_of_lists_are_arrays(compression):
    rows = [list(row) for row in MATRIX]
    lists = pa.array(rows, pa.list_(pa.float32(), 3))
    columns = {"Query": rows, "key": lists, "tokens": WORDS, "key_tokens": pa.array(WORDS).dictionary_encode()}
    found = read_file("a.parquet", parquet(columns, compression=compression))
    assert found.tokens == {"tokens": WORDS, "key_tokens": WORDS}
    np.testing.assert_array_equal(found.arrays["query"], MATRIX)
    np.testing.assert_array_equal(found.arrays["key"], MATRIX)


def test_parquet_leaves_out_the_index_that_pandas_adds():
    assert read_file("a.parquet", parquet({"x": [1, 2], "__index_level_0__": [7, 9]})).arrays["vectors"].tolist() == [
        [1],
        [2],
    ]


@pytest.mark.parametrize(
    ("data", "rows", "tokens"),
    [
        (b"1,2\n3,4\n", 2, None),
        (b"1,2\r3,4", 2, None),
        (b"x,y\n1,2\n\n3,4\n\n", 2, None),
        (b"a,1,2\nb,3,4", 2, ("a", "b")),
        (b"Tokens,x,y\n2024,1,2\n2025,3,4", 2, ("2024", "2025")),
        (b"token,0,1\nnan,1,2\ninf,3,4", 2, ("nan", "inf")),
        (b"nan,1,2\ninf,3,4", 2, ("nan", "inf")),
        (b'"a, b",1,2\n"say ""it""",3,4', 2, ("a, b", 'say "it"')),
        ("é,1,2\n日本,3,4".encode(), 2, ("é", "日本")),
    ],
)
def test_csv_finds_headings_and_tokens(data, rows, tokens):
    contents = read_file("a.csv", data)
    np.testing.assert_array_equal(contents.arrays["vectors"], [[1, 2], [3, 4]][:rows])
    assert contents.tokens.get("tokens") == tokens


def test_json_may_be_a_bare_list_or_deep():
    np.testing.assert_array_equal(read_file("a.json", b"[[1, 2], [true, 4e0]]").arrays["vectors"], [[1, 2], [1, 4]])
    deep = np.arange(48).reshape(2, 2, 3, 4)
    np.testing.assert_array_equal(read_file("a.json", text({"q": deep.tolist()})).arrays["q"], deep)


def test_tokens_are_cut_short_and_always_text_that_can_be_sent():
    contents = read_file("a.json", b'{"x": [[1], [2]], "tokens": ["' + b"y" * 300 + b'", "a\\ud800b"]}')
    assert contents.tokens["tokens"] == ("y" * 200, "a?b")
    no_character = header("(1,)", "<U2", body=b"a\0\0\0\xff\xff\xff\xff")
    contents = read_file("a.npz", zipped([("x.npy", npy(MATRIX[:1])), ("tokens.npy", no_character)]))
    assert contents.tokens["tokens"] == ("a\ufffd",)
    updated = npz(x=MATRIX, key_tokens=np.array(["né", "b"], dtype=">U2"))
    assert read_file("a.npz", updated).tokens == {"key_tokens": ("né", "b")}


class Bomb:
    """Unpickling this would set a flag."""

    exploded = False

    def __reduce__(self):
        return (setattr, (Bomb, "exploded", True))


PICKLED = npy(np.array([[Bomb()]], dtype=object), allow_pickle=True)


def test_nothing_is_unpickled():
    attempts = {
        "a.npy": PICKLED,
        "a.npz": zipped([("x.npy", PICKLED)]),
        "b.npz": zipped([("tokens.npy", PICKLED), ("x.npy", npy(MATRIX))]),
        "c.npz": zipped([("data.pkl", pickle.dumps(Bomb()))]),
        "b.npy": pickle.dumps(Bomb()),
        "a.pkl": pickle.dumps(Bomb()),
    }
    for name, data in attempts.items():
        with pytest.raises(ValueError, match=r"object array|text|not a \.npy|ends in"):
            read_file(name, data)
    assert not Bomb.exploded
    np.load(io.BytesIO(PICKLED), allow_pickle=True)
    assert Bomb.exploded  # so the file would have done it


BAD = {
    # the file as a whole
    "pickle ending": ("a.pkl", b"x", r"ends in “.pkl”. Upload .npz, .npy, "),
    "long ending": ("a." + HUGE, b"x", r"ends in “.x{38}…”"),
    "no ending": ("vectors", b"x", "no ending"),
    "path": ("/secret/place/a.pkl", b"x", r"^This file ends in “.pkl”"),
    "nothing": ("a.csv", b"", "empty"),
    "npy is csv": ("a.npy", b"1,2\n3,4", "ends in .npy, but does not begin"),
    "csv is npy": ("a.csv", npy(MATRIX), "content is that of a .npy file"),
    "npy is zip": ("a.npy", npz(x=MATRIX), "content is that of a .npz file"),
    "json is parquet": ("a.json", GOOD["a.parquet"], "content is that of a .parquet file"),
    "parquet is json": ("a.parquet", b"[[1]]", "does not begin"),
    "safetensors is csv": ("a.safetensors", b"1,2\n3,4\n5,6", "damaged"),
    # npy
    "object": ("a.npy", PICKLED, "object array, which could run code"),
    "structured object": ("a.npy", header("(1, 1)", [("a", "O")]), "object array"),
    "structured": ("a.npy", header("(1, 1)", [("a", "<f4")], body=bytes(4)), "has the type"),
    "complex": ("a.npy", npy(MATRIX * 1j), "has the type “complex64”"),
    "text": ("a.npy", npy(np.array([["a"]])), "has the type “<U1”"),
    "dates": ("a.npy", npy(np.array([["2024-01-01"]], dtype="M8[D]")), "has the type"),
    "0-d": ("a.npy", npy(np.float32(3)), r"shape “\(\)”"),
    "1-d": ("a.npy", npy(MATRIX[0]), r"shape “\(3,\)”. Give it 2 axes"),
    "5-d": ("a.npy", npy(MATRIX[None, None, None]), r"shape “\(1, 1, 1, 2, 3\)”"),
    "no rows": ("a.npy", npy(MATRIX[:0]), "empty"),
    "no columns": ("a.npy", npy(MATRIX[:, :0]), "empty"),
    "nan": ("a.npy", npy(np.where(MATRIX == 5, np.nan, MATRIX)), r"“vectors”\[1, 1\] is “nan”. Replace NaN"),
    "infinity": ("a.npy", npy(np.where(MATRIX == -3, -np.inf, MATRIX)), r"“vectors”\[0, 2\] is “-inf”"),
    "half infinity": ("a.npy", npy(np.float16([[1, np.inf]])), r"“vectors”\[0, 1\] is “inf”"),
    "too large": ("a.npy", npy(np.float64([[1, 1e300]])), r"\[0, 1\] is “1e\+300”"),
    "a trillion": ("a.npy", header("(1000000, 1000000)", body=bytes(40)), "fewer numbers follow"),
    "beyond 64 bits": ("a.npy", header(f"({'9' * 60}, 2)", body=bytes(40)), "fewer numbers follow"),
    "beyond printing": ("a.npy", header(f"({'9' * 4000}, {'9' * 4000})"), "fewer numbers follow"),
    "truth as a size": ("a.npy", header("(True, 4)", body=bytes(16)), "header of “vectors” cannot be read"),
    "negative": ("a.npy", header("(-2, -2)", body=bytes(40)), "fewer numbers follow"),
    "cut off": ("a.npy", npy(MATRIX)[:-1], "fewer numbers follow"),
    "header cut off": ("a.npy", npy(MATRIX)[:40], "header of “vectors” cannot be read"),
    "magic alone": ("a.npy", b"\x93NUMPY", "cannot be read"),
    "header is code": ("a.npy", header("__import__('os').getcwd()"), "cannot be read"),
    "deep header": ("a.npy", header("(" * 5000), "cannot be read"),
    # npz
    "no members": ("a.npz", zipped([]), "holds no numbers"),
    "zip cut off": ("a.npz", npz(x=MATRIX)[:-30], "cannot be read"),
    "other member": ("a.npz", zipped([("notes.txt", "x")]), "“notes.txt” is not a .npy array"),
    "long member": ("a.npz", zipped([(HUGE[:60_000], "x")]), "“x{39}…” is not a .npy"),
    "encrypted": ("a.npz", marked(npz(x=MATRIX), 8, 1), "encrypted"),
    "unusual packing": ("a.npz", zipped([("x.npy", npy(MATRIX))], compression=zipfile.ZIP_LZMA), "unusual way"),
    "wrong checksum": ("a.npz", marked(npz(x=MATRIX), 16, 77), "“x” cannot be read"),
    "declares too little": ("a.npz", declared(npz(x=MATRIX), 100), "cannot be read"),
    "many members": ("a.npz", zipped([(f"{i}.npy", b"") for i in range(101)]), "more than 100 arrays"),
    "not npy inside": ("a.npz", zipped([("x.npy", "hello")]), "header of “x” cannot be read"),
    "same name": ("a.npz", npz(Q=MATRIX, q=MATRIX), "names “q” twice"),
    "object tokens": ("a.npz", npz(x=MATRIX, tokens=np.array(WORDS, dtype=object)), "“tokens” is not a list of texts"),
    "number tokens": ("a.npz", npz(x=MATRIX, tokens=np.arange(2)), "“tokens” is not a list of texts"),
    "matrix of tokens": ("a.npz", npz(x=MATRIX, tokens=np.array([WORDS])), "“tokens” is not a list of texts"),
    "many tokens": ("a.npz", npz(x=MATRIX, tokens=np.array(["a"] * 1025)), "names 1,025 tokens; at most 1,024"),
    "texts of no length": ("a.npz", zipped([("tokens.npy", header("(9,)", "<U0"))]), "fewer numbers follow"),
    "tokens alone": ("a.npz", npz(tokens=np.array(WORDS)), "holds no numbers"),
    "claims in zip": ("a.npz", zipped([("x.npy", header("(10000, 10000)"))]), "fewer numbers follow"),
    # safetensors
    "safetensors cut off": ("a.safetensors", GOOD["a.safetensors"][:-1], "damaged or cut off"),
    "few bytes": ("a.safetensors", b"\x01", "damaged or cut off"),
    "huge header": ("a.safetensors", struct.pack("<Q", 1 << 60) + b"{}", "damaged or cut off"),
    "no tensors": ("a.safetensors", struct.pack("<Q", 2) + b"{}", "holds no numbers"),
    "complex tensor": ("a.safetensors", save({"x": torch.zeros(1, 1, dtype=torch.complex64)}), "type “complex64”"),
    "nan tensor": ("a.safetensors", save({"x": torch.tensor([[1.0], [torch.nan]])}), r"“x”\[1, 0\] is “nan”"),
    "tokens not JSON": ("a.safetensors", save({"x": torch.ones(1, 1)}, {"tokens": "a b"}), "metadata “tokens” is not"),
    "tokens not list": ("a.safetensors", save({"x": torch.ones(1, 1)}, {"tokens": '"ab"'}), "must be a list of texts"),
    "tokens tensor": ("a.safetensors", save({"tokens": torch.ones(1, 1)}), "is not a list of texts"),
    # csv and tsv
    "ragged": ("a.csv", b"1,2,3,4,5\n1,2,3,4,5\n1,2,3,4\n", "Row 3 has 4 numbers, but row 1 has 5. Give all rows"),
    "ragged below heading": ("a.tsv", b"token\tx\ty\na\t1\t2\nb\t3", "Row 3 has 1 number, but row 2 has 2"),
    "word": ("a.csv", b"1,2,3\n1,2,abc", "Row 2, column 3 holds “abc”, which is not a finite number"),
    "long word": ("a.csv", b"1,2\n1," + HUGE.encode(), "Row 2, column 2 holds “x{39}…”"),
    "link": ("a.csv", b"1\n`![a](http://b.c/d)", "holds “`!.a..http://b.c/d.”, which"),
    "empty cell": ("a.csv", b"1,2\n1,\n", "Row 2, column 2 is empty"),
    "csv nan": ("a.csv", b"1,2\n1,nan\n", "Row 2, column 2 holds “nan”, which is not a finite"),
    "csv infinity": ("a.csv", b"1,2\n1,-Infinity\n", "Row 2, column 2 holds “-Infinity”"),
    "csv too large": ("a.csv", b"1,2\n1,1e30\n", r"“vectors”\[1, 1\] is “1e\+30”"),
    "a number among tokens": ("a.csv", b"the,1\n2024,2\n", "Row 1, column 1 holds “the”.*write “token” above"),
    "headings alone": ("a.csv", b"x,y,z\n", "holds no numbers"),
    "tokens in csv alone": ("a.csv", b"token\nthe\ncat\n", "empty"),
    "blank lines": ("a.csv", b"\n\n\n", "holds no numbers"),
    "long cell": ("a.csv", b"1,2\n1," + HUGE.encode() * 2, "Line 2 is not a row of cells"),
    "stray quote": ("a.csv", b'1,2\n"3"4,5\n', "Line 2 is not a row of cells. Look for a stray quotation mark"),
    "open quote": ("a.csv", b'1,2\n"3,5\n', "not a row of cells"),
    "many rows": ("a.csv", b"1\n" * 1025, "more than 1,024 rows"),
    "latin-1": ("a.csv", b"caf\xe9,1\n", "not text in UTF-8"),
    "utf-16": ("a.tsv", "a\t1\n".encode("utf-16"), "not text in UTF-8"),
    # json
    "json cut off": ("a.json", b"[[1, 2], [3", "not valid JSON in line 1, character 12"),
    "json is csv": ("a.json", b"1,2\n3,4", "not valid JSON"),
    "json latin-1": ("a.json", b'{"caf\xe9": [[1]]}', "not text in UTF-8"),
    "deep lists": ("a.json", b"[" * 100_000, "nests lists too deeply"),
    "deep objects": ("a.json", b'{"a":' * 100_000, "nests lists too deeply"),
    "number alone": ("a.json", b"3", "must hold a list of rows"),
    "json ragged": ("a.json", b"[[1, 2], [3]]", r"“vectors”\[1\] has length 1, the lists before have 2"),
    "json ragged heads": ("a.json", b'{"q": [[[1]], [[1], [2]]]}', r"“q”\[1\] has length 2"),
    "json mixed": ("a.json", b"[[1, 2], 3]", r"“vectors”\[1\] is not a list"),
    "json text": ("a.json", b'[[1, "2"]]', r"“vectors”\[0, 1\] holds “2”, which is not a number"),
    "json long text": ("a.json", text([[HUGE]]), r"\[0, 0\] holds “x{39}…”"),
    "json null": ("a.json", b"[[1, null]]", r"\[0, 1\] holds null"),
    "json object": ("a.json", b'[[1, {"a": 1}]]', r"\[0, 1\] holds an object"),
    "json list": ("a.json", b"[[1, [2]]]", r"\[0, 1\] holds a list"),
    "json one row": ("a.json", b"[1, 2]", r"shape “\(2,\)”"),
    "json scalar": ("a.json", b'{"q": 1}', r"“q” has the shape “\(\)”"),
    "json no rows": ("a.json", b"[]", r"shape “\(0,\)”"),
    "json no columns": ("a.json", b"[[], []]", "is empty"),
    "json 5-d": ("a.json", b"[[[[[1]]]]]", "shape"),
    "json 6-d": ("a.json", b"[[[[[[1]]]]]]", "holds a list"),
    "json nan": ("a.json", b"[[1, NaN]]", r"\[0, 1\] is “nan”"),
    "json infinity": ("a.json", b"[[1, 1e999]]", r"\[0, 1\] is “inf”"),
    "json digits": ("a.json", b"[[1" + b"0" * 5000 + b"]]", r"\[0, 0\] is “inf”"),
    "json tokens": ("a.json", b'{"x": [[1]], "tokens": [1]}', "“tokens” must be a list of texts"),
    "json token text": ("a.json", b'{"x": [[1]], "tokens": "a"}', "“tokens” must be a list of texts"),
    "json same name": ("a.json", b'{"Q": [[1]], "q": [[1]]}', "names “q” twice"),
    "json same tokens": ("a.json", b'{"x": [[1]], "token": ["a"], "tokens": ["a"]}', "names “tokens” twice"),
    "json many arrays": ("a.json", text({str(i): [[1]] for i in range(101)}), "more than 100 arrays"),
    # parquet
    "parquet cut off": ("a.parquet", GOOD["a.parquet"][:-20], "damaged"),
    "parquet ends the process": ("a.parquet", b"PAR1\x15" + bytes(40) + struct.pack("<I", 20) + b"PAR1", "damaged"),
    "parquet many rows": ("a.parquet", parquet({"x": np.zeros(1025)}), "has 1,025 rows; at most 1,024"),
    "parquet dates": (
        "a.parquet",
        parquet({"`day`": np.array(["2024-01-01"], "M8[ms]")}),
        "Column “`day`” holds “timesta",
    ),
    "parquet lists of lists": ("a.parquet", parquet({"x": [[[1.0]]]}), "Column “x” holds “list<"),
    "parquet nulls": ("a.parquet", parquet({"x": [1.0, None]}), "Column “x” has empty cells"),
    "parquet null lists": ("a.parquet", parquet({"x": [[1.0], None]}), "Column “x” has empty cells"),
    "parquet nulls in lists": ("a.parquet", parquet({"x": [[1.0], [None]]}), "Column “x” has empty cells"),
    "parquet nan": ("a.parquet", parquet({"x": [1.0, np.nan]}), r"“vectors”\[1, 0\] is “nan”"),
    "parquet ragged": ("a.parquet", parquet({"x": [[1.0], [1.0, 2.0]]}), "lists in column “x” differ in length"),
    "parquet empty lists": ("a.parquet", parquet({"x": pa.array([[], []], pa.list_(pa.float32()))}), "is empty"),
    "parquet no rows": ("a.parquet", parquet({"x": pa.array([], pa.float32())}), "empty"),
    "parquet number tokens": ("a.parquet", parquet({"tokens": [1, 2], "x": [1, 2]}), "Column “tokens” must hold text"),
    "parquet texts": (
        "a.parquet",
        parquet({"a": WORDS, "b": WORDS, "x": [1, 2]}),
        "Column “a” holds text, and so does another",
    ),
    "parquet no numbers": ("a.parquet", parquet({"token": WORDS}), "holds no numbers"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_said_in_a_sentence(case):
    name, data, sentence = BAD[case]
    with pytest.raises(ValueError, match=sentence) as caught:
        read_file(name, data)
    assert type(caught.value) is ValueError
    message = str(caught.value)
    assert message.endswith(".")
    assert len(message) < 300
    assert message.isprintable()
    assert "/" not in message.replace("http://b.c/d", "")


def test_quoted_text_cannot_end_its_quotation_or_fill_the_screen():
    assert quoted("a`b\n\u202e”“") == "“a`b����”"
    assert len(quoted(HUGE)) == 42


def one_list(length):
    """A column of one row, a list of zeros."""
    return pa.ListArray.from_arrays(pa.array([0, length], pa.int32()), pa.array(np.zeros(length, np.float32)))


def lying_parquet(rows):
    """One row that is a list of `rows` zeros, in a few hundred bytes, with a footer that speaks of 10."""
    options = {"compression": "zstd", "write_statistics": False, "store_schema": False, "data_page_size": 1 << 30}
    data = parquet({"x": one_list(rows)}, **options)
    zigzag, number = b"", rows * 2
    while number:
        number, low = number >> 7, number & 127
        zigzag += bytes([low | (128 if number else 0)])
    at = data.index(zigzag, len(data) - 8 - int.from_bytes(data[-8:-4], "little"))
    return data[:at] + bytes([20 | 128, *[128] * (len(zigzag) - 2), 0]) + data[at + len(zigzag) :]


SMALL = Limits(disk=2 << 20, unpacked=4 << 20)
BOMBS = {  # made when they are tried, as some take long to pack
    "disk": ("a.npy", lambda: bytes((2 << 20) + 1), r"has 2 MB; at most 2 MB"),
    "zip": ("a.npz", lambda: npz(x=np.zeros((1000, 10_000), np.float32)), "more than 4 MB"),
    "zip in parts": (
        "a.npz",
        lambda: npz(**{f"x{i}": np.zeros((100, 3000), np.float32) for i in range(6)}),
        "more than 4 MB",
    ),
    "zip that lies": (
        "a.npz",
        lambda: declared(npz(x=np.zeros((1000, 10_000), np.float32)), 500),
        "cannot be read|fewer",
    ),
    "zip of short numbers": ("a.npz", lambda: npz(x=np.zeros((1000, 1500), np.uint16)), "more than 4 MB"),
    "long list of members": ("a.npz", lambda: zipped([(f"{i}.npy", b"") for i in range(5000)]), "more than 100 arrays"),
    "bytes that widen": (
        "a.safetensors",
        lambda: save({"x": torch.zeros(1000, 1100).to(torch.float8_e4m3fn)}),
        "more than 4 MB",
    ),
    "csv cells": ("a.csv", lambda: b"1," * 200_000, "more than 4 MB"),
    "csv lines": ("a.csv", lambda: b"\n" * 200_000, "more than 4 MB"),
    "json numbers": ("a.json", lambda: b"[" + b"1," * 200_000 + b"1]", "more than 4 MB"),
    "json lists": ("a.json", lambda: b"[" + b"[]," * 60_000 + b"1]", "more than 4 MB"),
    "json objects": ("a.json", lambda: b"[" + b"{}," * 200_000 + b"1]", "more than 4 MB"),
    "parquet": ("a.parquet", lambda: parquet({f"c{i}": np.zeros(1024) for i in range(600)}), "more than 4 MB"),
    "parquet lists": ("a.parquet", lambda: parquet({"x": one_list(2_000_000)}, use_dictionary=False), "more than 4 MB"),
    "parquet text": (
        "a.parquet",
        lambda: parquet({"x": ["x" * 100_000_000]}, compression="zstd", use_dictionary=False, write_statistics=False),
        "more than 4 MB",
    ),
    "parquet repeats": ("a.parquet", lambda: parquet({"x": one_list(1_200_000)}), "more than 4 MB"),
}


@pytest.mark.parametrize("case", BOMBS)
def test_bombs_are_refused_before_memory_is_taken(case):
    name, packed, sentence = BOMBS[case]
    data = packed()
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=sentence):
            read_file(name, data, SMALL)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * SMALL.unpacked  # packed and unpacked


def test_a_parquet_file_that_lies_in_its_footer_harms_only_its_own_process():
    data = lying_parquet(20_000_000)
    assert len(data) < 1000
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="damaged, or takes too much memory"):
            read_file("a.parquet", data, SMALL)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize(
    ("failure", "sentence"),
    [
        (subprocess.TimeoutExpired("python", 30), "takes too long"),
        (FileNotFoundError("/usr/bin/python"), "on this computer"),
    ],
)
def test_a_parquet_process_that_fails_is_said_in_a_sentence(monkeypatch, failure, sentence):
    monkeypatch.setattr(subprocess, "run", Mock(side_effect=failure))
    with pytest.raises(ValueError, match=sentence):
        read_file("a.parquet", GOOD["a.parquet"])


def test_what_is_within_the_limits_is_read():
    limits = Limits(disk=2000, unpacked=1 << 20)
    for name, data in GOOD.items():
        assert read_file(name, data, Limits(disk=len(data), unpacked=1 << 20)).arrays
    with pytest.raises(ValueError, match=r"at most 1\.95 KB"):
        read_file("a.npy", npy(np.zeros((100, 100))), limits)


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["set", "cut", "drop", "insert"]), st.integers(0, 5000), st.binary(min_size=1, max_size=6)
    ),
    min_size=1,
    max_size=5,
)


def edited(data, edits):
    for edit, at, new in edits:
        at %= len(data) + 1
        left, right = data[:at], data[at:]
        data = {"set": left + new + right[len(new) :], "cut": left, "drop": left + right[len(new) :]}.get(
            edit, left + new + right
        )
    return data


def returns_or_refuses(name, data):
    try:
        contents = read_file(name, data, SMALL)
    except ValueError as error:
        refusal = error
    else:
        assert all(np.isfinite(array).all() and 2 <= array.ndim <= 4 for array in contents.arrays.values())
        return
    assert type(refusal) is ValueError
    assert str(refusal).endswith(".")
    assert len(str(refusal)) < 300


@pytest.mark.parametrize("name", [name for name in GOOD if name != "a.parquet"])
@settings(max_examples=150, deadline=2000, derandomize=True, suppress_health_check=list(HealthCheck))
@given(edits=EDITS)
@example(edits=[("set", 64, b"'O'")])
def test_damaged_files_are_read_or_refused(name, edits):
    returns_or_refuses(name, edited(GOOD[name], edits))


@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(edits=EDITS)
def test_damaged_parquet_files_are_read_or_refused(edits):  # few, because each takes a process
    returns_or_refuses("a.parquet", edited(GOOD["a.parquet"], edits))


@settings(max_examples=300, deadline=2000, derandomize=True)
@given(
    shape=st.lists(st.integers(-3, 5) | st.integers(-(2**70), 2**70) | st.booleans(), max_size=6),
    descr=st.sampled_from(["<f4", "|O", "<U0", "V0", ">U3", "<c8", "M8[s]", "f4,f4", "<f99", "|b1", [("a", "<f4")], 7]),
    order=st.sampled_from(["True", "False", "1"]),
    body=st.binary(max_size=200),
    member=st.sampled_from(["x", "tokens"]),
)
def test_headers_that_claim_anything_are_read_or_refused(shape, descr, order, body, member):
    data = header(tuple(shape), descr, order, body=body)
    returns_or_refuses("a.npy", data)
    returns_or_refuses("a.npz", zipped([(f"{member}.npy", data), ("y.npy", GOOD["a.npy"])]))


@settings(max_examples=200, deadline=2000, derandomize=True)
@given(
    parts=st.lists(
        st.sampled_from(
            ["[", "]", "{", "}", ",", '"', "1", "-", "e", "null", "NaN", "\n", "\r", "\t", "token", "\\", "é"]
        ),
        max_size=30,
    ),
    name=st.sampled_from(["a.json", "a.csv", "a.tsv"]),
)
def test_any_text_is_read_or_refused(parts, name):
    returns_or_refuses(name, "".join(parts).encode())
