import importlib.util
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attnviz.biases import rotated
from attnviz.layer import FixedWeights
from attnviz.mechanism import Mechanism
from attnviz.sources.files import read_file
from attnviz.sources.upload import File, Upload, from_arrays
from tests.support import array_files

SAMPLES = Path(__file__).parents[2] / "assets" / "samples"
RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.standard_normal(shape).astype(np.float32)


def npz(**arrays):
    return File("a.npz", array_files.npz(**arrays))


def test_no_file_asks_for_one():
    with pytest.raises(ValueError, match=r"^Upload vectors"):
        Upload().layers()


def test_a_file_is_known_by_its_content_without_showing_it():
    one, same, other, renamed = File("a", b"12"), File("a", b"12"), File("a", b"13"), File("b", b"12")
    assert one == same
    assert hash(one) == hash(same)
    assert len({one, same, other, renamed}) == 3
    assert one != "a"
    assert repr(one).startswith("File(name='a', sha256='6b51d431df5d7f14")
    secret = File("a", b"secret" * 100)
    assert "secret" not in repr(Upload(secret))
    assert len(repr(secret)) < 120


def test_fields_say_what_their_widgets_need():
    assert "Your own vectors" in Upload.__doc__
    labels = {field.name: field.metadata["label"] for field in fields(Upload)}
    assert labels == {
        "file": "Vectors",
        "heads": "Number of heads",
        "rotary": "Rotary positions",
        "reading": "Read as",
    }
    assert Upload.__dataclass_fields__["heads"].metadata["max"] == 64


def test_one_matrix_attends_to_itself():
    matrix = normal(5, 6)
    for arrays in (matrix, {"x": matrix}, {"Embeddings": matrix}):
        [layer] = from_arrays(arrays)
        assert (layer.name, layer.kind, layer.locked_reason, layer.mechanism) == ("layer 0", "self", "", Mechanism())
        assert layer.inputs.query_tokens == layer.inputs.key_tokens == ("0", "1", "2", "3", "4")
        for part in (layer.inputs.query, layer.inputs.key, layer.inputs.value):
            np.testing.assert_array_equal(part[0], matrix)


def test_attention_of_an_upload_is_torch_s():
    query, key, value = normal(4, 3, 8), normal(2, 5, 8), normal(2, 5, 7)
    [layer] = Upload(npz(Q=query, K=key, V=value)).layers()
    theirs = scaled_dot_product_attention(*map(torch.from_numpy, (query, key, value)), enable_gqa=True)
    torch.testing.assert_close(layer.mechanism(layer.inputs).output, theirs)


def test_matrices_are_cut_into_the_heads_asked_for():
    query, key = normal(3, 8), normal(5, 4)
    [layer] = Upload(npz(query=query, key=key), heads=2).layers()
    assert layer.inputs.query.shape == (2, 3, 4)
    assert layer.inputs.key.shape == layer.inputs.value.shape == (2, 5, 2)  # another width is no error here
    np.testing.assert_array_equal(layer.inputs.query[1], query[:, 4:])
    np.testing.assert_array_equal(layer.inputs.value[0], key[:, :2])
    [layer] = from_arrays({"q": normal(4, 3, 8), "k": normal(3, 8)})
    assert (layer.inputs.heads, layer.inputs.key.shape[0]) == (4, 1)
    [layer] = from_arrays(normal(3, 5, 4), heads=2)  # heads that are there already stay as they are
    assert layer.inputs.heads == 3


@pytest.mark.parametrize("rotary", ["half split", "interleaved"])
def test_rotary_positions_turn_queries_and_keys_and_not_values(rotary):
    query, key = normal(3, 8), normal(5, 8)
    for arrays in ({"q": query, "k": key}, key):
        [plain] = from_arrays(arrays, heads=2)
        [turned] = from_arrays(arrays, heads=2, rotary=rotary)
        assert (turned.kind, turned.inputs.query_tokens) == (plain.kind, plain.inputs.query_tokens)
        assert torch.equal(turned.inputs.query, rotated(plain.inputs.query, rotary))
        assert torch.equal(turned.inputs.key, rotated(plain.inputs.key, rotary))
        assert torch.equal(turned.inputs.value, plain.inputs.value)
    [layer] = Upload(npz(query=query, key=key), rotary=rotary).layers()
    assert torch.equal(layer.inputs.query[0], rotated(torch.from_numpy(query)[None], rotary)[0])
    weights = np.eye(3, dtype=np.float32)
    assert torch.equal(from_arrays({"weights": weights}, rotary=rotary)[0].weights[0], torch.from_numpy(weights))


def test_four_axes_are_layers():
    layers = from_arrays({"queries": normal(3, 4, 5, 8), "keys": normal(3, 2, 6, 8), "values": normal(3, 2, 6, 9)})
    assert [layer.name for layer in layers] == ["layer 0", "layer 1", "layer 2"]
    assert {layer.kind for layer in layers} == {"cross"}
    assert {tuple(layer.inputs.value.shape) for layer in layers} == {(2, 6, 9)}
    assert len(from_arrays(normal(2, 4, 5, 8))) == 2


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (2, 3, 5), (2, 3, 4, 6)])
def test_weights_come_back_exactly(shape):
    weights = RANDOM.random(shape).astype(np.float32)
    weights[..., 0] = 0
    weights[..., -1] = 1
    layers = Upload(npz(weights=weights), heads=2).layers()
    expected = weights.reshape(-1, *shape[-3:]) if len(shape) == 4 else weights.reshape(1, -1, *shape[-2:])
    assert len(layers) == len(expected)
    for layer, whole in zip(layers, expected, strict=True):
        assert torch.equal(layer.weights, torch.from_numpy(whole))
        assert layer.mechanism == FixedWeights()
        assert layer.kind == ("self" if shape[-1] == shape[-2] else "cross")
        assert layer.locked_reason.endswith("cannot be changed.")


def test_weights_may_be_rounded_but_not_more():
    assert from_arrays({"Weights": np.array([[1.0005, 0]])})[0].inputs.queries == 1
    for wrong in ([[1.01, 0]], [[-0.01, 1]], [[5, 2]]):
        with pytest.raises(ValueError, match="weights must lie between 0 and 1; these go from"):
            from_arrays({"weights": np.array(wrong)})


def test_tokens_name_queries_and_keys():
    def names(queries, keys, **tokens):
        layer = from_arrays({"q": normal(queries, 4), "k": normal(keys, 4)}, **tokens)[0]
        return layer.kind, layer.inputs.query_tokens, layer.inputs.key_tokens

    assert names(2, 2, tokens=["a", "b"]) == ("self", ("a", "b"), ("a", "b"))
    assert names(2, 3, tokens=["a", "b"]) == ("cross", ("a", "b"), ("0", "1", "2"))
    assert names(2, 2, key_tokens=["a", "b"]) == ("cross", ("0", "1"), ("a", "b"))
    assert names(2, 1, tokens=["a", "b"], key_tokens=["c"]) == ("cross", ("a", "b"), ("c",))
    layer = Upload(npz(x=normal(2, 4), tokens=np.array(["a", "b"]))).layers()[0]
    assert layer.inputs.key_tokens == ("a", "b")


MATRIX = np.ones((3, 4), np.float32)
BAD = {
    "query alone": ({"q": MATRIX}, {}, "“q”. Give query and key"),
    "key alone": ({"key": MATRIX}, {}, "“key”. Give query and key"),
    "query and value": ({"query": MATRIX, "value": MATRIX}, {}, "Give query and key"),
    "two of no name": ({"arr_0": MATRIX, "arr_1": MATRIX}, {}, "“arr_0”, “arr_1”. Give query and key"),
    "one too many": ({"q": MATRIX, "k": MATRIX, "mask": MATRIX}, {}, "“mask”. Give query and key"),
    "weights and more": ({"weights": MATRIX, "value": MATRIX}, {}, "or weights alone"),
    "nothing": ({}, {}, "Give query and key"),
    "twice": ({"q": MATRIX, "Query": MATRIX, "k": MATRIX}, {}, "“query” is given twice"),
    "layers": ({"q": MATRIX[None, None], "k": np.ones((2, 1, 3, 4))}, {}, "query has 1 layers, but key has 2"),
    "heads that do not divide": (MATRIX, {"heads": 3}, "cannot be cut into 3 equal heads. Choose one of 1, 2, 4"),
    "odd heads to turn": (np.ones((3, 5)), {"rotary": "interleaved"}, "each head needs an even count of them; here it"),
    "no heads": (MATRIX, {"heads": 0}, "1 to 64 heads; there cannot be 0"),
    "heads to share": ({"q": np.ones((3, 2, 4)), "k": np.ones((2, 2, 4))}, {}, "cannot share 2 key heads evenly"),
    "values": ({"q": MATRIX, "k": MATRIX, "v": MATRIX[:2]}, {}, "same heads and tokens"),
    "few tokens": (MATRIX, {"tokens": ["a"]}, "tokens names 1 tokens, but there are 3 queries"),
    "many tokens": ({"q": MATRIX, "k": MATRIX[:1]}, {"tokens": list("abcd")}, "but there are 3 queries"),
    "key tokens": ({"q": MATRIX, "k": MATRIX[:1]}, {"key_tokens": list("abc")}, "but there are 1 keys"),
    "long": (np.ones((1025, 1)), {}, "has 1,025 tokens; at most 1,024 can be shown"),
    "wide": (np.ones((1, 4097)), {}, "has 4,097 numbers a vector; at most 4,096"),
    "headed": (np.ones((65, 1, 1)), {}, "has 65 heads; at most 64"),
    "deep": (np.ones((65, 1, 1, 1)), {}, "has 65 layers; at most 64"),
    "many keys": ({"weights": np.zeros((1, 1025))}, {}, "1,025 keys; at most 1,024"),
    "nan": ({"q": MATRIX, "k": MATRIX * np.nan}, {}, r"“k”\[0, 0\] is “nan”"),
    "complex": (MATRIX * 1j, {}, "has the type “complex64”"),
    "object": (MATRIX.astype(object), {}, "object array"),
    "one axis": (MATRIX[0], {}, r"shape “\(4,\)”"),
    "empty": (MATRIX[:0], {}, "is empty"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_said_in_a_sentence(case):
    arrays, options, sentence = BAD[case]
    with pytest.raises(ValueError, match=sentence) as caught:
        from_arrays(arrays, **options)
    assert str(caught.value).endswith(".")


def test_the_largest_that_may_be_shown():
    [layer] = from_arrays(np.ones((1024, 64)), heads=64)
    assert layer.inputs.heads == 64
    assert len(from_arrays(np.ones((64, 64, 1, 1)))) == 64


def sample_files():
    return sorted(path for path in SAMPLES.iterdir() if path.is_file() and path.suffix != ".py")


def test_there_is_a_sample_of_every_format():
    endings = {path.suffix for path in sample_files()}
    assert endings == {".csv", ".json", ".npy", ".npz", ".parquet", ".safetensors", ".tsv"}
    assert all(path.stat().st_size < 20_000 for path in sample_files())


@pytest.mark.parametrize("path", sample_files(), ids=lambda path: path.name)
def test_samples_load_and_have_something_to_see(path):
    layers = Upload(File(path.name, path.read_bytes())).layers()
    weights = layers[-1].maps()
    assert 7 <= weights.shape[-1] <= 12
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), rtol=0, atol=1e-3)
    assert weights.amax(-1).mean() > 3 / weights.shape[-1]  # far from uniform


def test_the_script_writes_the_samples_again():
    spec = importlib.util.spec_from_file_location("make", SAMPLES / "make.py")
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    written = make.samples()
    assert {path.name for path in sample_files()} == set(written)
    for name, data in written.items():
        new, kept = read_file(name, data), read_file(name, (SAMPLES / name).read_bytes())
        assert new.tokens == kept.tokens
        assert new.arrays.keys() == kept.arrays.keys()
        for label, array in new.arrays.items():
            np.testing.assert_allclose(array, kept.arrays[label], rtol=1e-6, atol=1e-7)


def test_torch_tensors_are_as_welcome_as_numpy_arrays():
    query = torch.randn(2, 3, 4, requires_grad=True)
    [layer] = from_arrays({"query": query, "key": query}, tokens=["a", "b", "c"])
    torch.testing.assert_close(layer.inputs.query, query.detach())
    [one] = from_arrays(torch.ones(3, 4, dtype=torch.bfloat16))
    assert one.inputs.query.dtype == torch.float32


@pytest.mark.parametrize("kind", ["uint8", "int8", "int16", "float16", ">f2", "bool"])
@pytest.mark.parametrize("role", ["vectors", "weights"])
def test_numbers_of_two_bytes_are_held_as_they_are(kind, role):
    array = RANDOM.integers(0, 2, (3, 2, 5, 5)).astype(kind)
    held = from_arrays({role: array}, heads=1)
    wide = from_arrays({role: array.astype(np.float32)}, heads=1)
    for one, other in zip(held, wide, strict=True):
        assert {tensor.element_size() for tensor in one.inputs.tensors.values()} == {array.dtype.itemsize}
        maps, expected = one.maps([1]), other.maps([1])
        assert torch.equal(maps, expected)
        assert maps.dtype == torch.float32
        if role == "vectors":
            assert torch.equal(one.mechanism(one.inputs).output, other.mechanism(other.inputs).output)
