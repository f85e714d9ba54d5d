"""More than two hundred broken GGUF files, each of which is refused with a sentence, in little time and memory."""

import random
import resource
import struct
import time

import numpy as np
import pytest

from attnviz.models import load
from attnviz.models.gguf_file import read_gguf
from attnviz.models.gguf_keys import config_json
from tests.support.gguf_files import config_of, write

UINT32, FLOAT32, STRING, ARRAY = 4, 6, 8, 9
HUGE = (1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
KEYS = (
    *("general.architecture", "llama.block_count", "llama.embedding_length", "llama.rope.freq_base"),
    *("tokenizer.ggml.tokens", "tokenizer.ggml.merges", "tokenizer.chat_template", "tokenizer.ggml.bos_token_id"),
)
TENSORS = ("token_embd.weight", "blk.0.attn_q.weight", "blk.1.ffn_down.weight")  # of two dimensions
COUNTS = {"tensors": 8, "entries": 16}  # where they are
DIMENSIONS, SIDES, KIND, OFFSET = 0, 4, 20, 24  # bytes after the name of a tensor


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNVIZ_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A file that is not broken."""
    return write(tmp_path_factory.mktemp("gguf") / "llama.gguf", "llama", config_of("llama"))


@pytest.fixture(scope="module")
def whole(path):
    """The bytes of a file that is not broken."""
    return path.read_bytes()


def refused(content, folder, words=""):
    """Loads a file with this content, which must be refused with a sentence."""
    file = folder / "broken.gguf"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=words or None) as error:
        opened(file)
    assert str(error.value)[-1] in ".”"  # of the reason that transformers gives
    assert len(str(error.value)) < 800


def opened(file):
    """The model in a file, whose head is first read here, as the program does that reads heads."""
    config_json(read_gguf(file))
    return load(file)


def all_refused(contents, folder, words=""):
    """Like `refused`, for many files, in little time and memory; returns how many there were."""
    before, start, count = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time(), 0
    for content in contents:
        refused(content, folder, words)
        count += 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kilobytes
    assert time.process_time() - start < count
    return count


def named(name):
    return struct.pack("<Q", len(name)) + name.encode()


def after(whole, name):
    """The place after the name of an entry or of a tensor."""
    return whole.index(named(name)) + len(named(name))


def put(whole, place, code, value):
    """The file with another number at a place."""
    return whole[:place] + struct.pack(code, value) + whole[place + struct.calcsize(code) :]


def with_value(whole, name, kind, value):
    """The file with another value, of 4 bytes, in an entry."""
    place = after(whole, name)
    return put(put(whole, place, "<I", kind), place + 4, "<f" if kind == FLOAT32 else "<I", value)


def with_entry(whole, name, kind, content):
    """The file with one more entry, before the others."""
    entries = struct.unpack_from("<Q", whole, COUNTS["entries"])[0]
    head = put(whole, COUNTS["entries"], "<Q", entries + 1)[:24]
    return head + named(name) + struct.pack("<I", kind) + content + whole[24:] + bytes(64 + len(name) + len(content))


def test_a_file_that_is_not_broken(path, whole):
    assert load(path).encode("bag").source.tokens
    assert read_gguf(path).metadata["llama.block_count"] == 2
    assert with_value(whole, "llama.block_count", UINT32, 2) == whole


def test_files_that_are_cut_off(path, whole, tmp_path):
    end = max(tensor.offset + tensor.size for tensor in read_gguf(path).tensors)
    contents = [whole[: end * part // 60] for part in range(60)] + [whole[: end - 1]]
    assert all_refused(contents, tmp_path, "ends in the middle|does not begin with GGUF") == 61


def test_files_of_another_format_or_version(whole, tmp_path):
    magics = [magic + whole[4:] for magic in (b"GGML", b"ggjt", b"PK\3\4", b"\0\0\0\0")]
    assert all_refused(magics, tmp_path, "it does not begin with GGUF") == 4
    versions = [put(whole, 4, "<I", version) for version in (0, 1, 4, 3 << 24, (1 << 32) - 1)]
    assert all_refused(versions, tmp_path, "its version is .* only 2 and 3 are known") == 5


def test_counts_that_no_file_has(whole, tmp_path):
    huge = [put(whole, place, "<Q", count) for place in COUNTS.values() for count in ((1 << 16) + 1, *HUGE)]
    assert all_refused(huge, tmp_path, "where at most 65,536 can be") == 10
    counts = {place: struct.unpack_from("<Q", whole, place)[0] for place in COUNTS.values()}
    wrong = [put(whole, place, "<Q", count + more) for place, count in counts.items() for more in (-2, 1)]
    assert all_refused(wrong, tmp_path) == 4


def test_names_of_any_length(whole, tmp_path):
    contents = [
        put(whole, whole.index(named(name)), "<Q", length)
        for name in (*KEYS, *TENSORS)
        for length in ((1 << 16) + 1, *HUGE)
    ]
    assert all_refused(contents, tmp_path, "where at most 65,536 can be") == 55


def test_values_of_types_that_there_are_not(whole, tmp_path):
    contents = [put(whole, after(whole, key), "<I", kind) for key in KEYS for kind in (13, 255, (1 << 32) - 1)]
    assert all_refused(contents, tmp_path, "a value of the type [0-9]+, which is not known") == 24


def test_texts_of_any_length_or_encoding(whole, tmp_path):
    place = after(whole, "tokenizer.chat_template") + 4
    contents = [put(whole, place, "<Q", length) for length in ((1 << 22) + 1, *HUGE)]
    assert all_refused(contents, tmp_path, "where at most 4,194,304 can be") == 5
    contents = [put(whole, after(whole, key) - 1, "<B", 0xFF) for key in KEYS]
    assert all_refused(contents, tmp_path, "a text that is not UTF-8") == 8


def test_arrays_that_are_huge_or_deep(whole, tmp_path):
    place = after(whole, "tokenizer.ggml.tokens") + 4
    huge = [put(whole, place + 4, "<Q", count) for count in ((1 << 22) + 1, *HUGE)]
    deep = [with_entry(whole, "deep", ARRAY, struct.pack("<IQ", ARRAY, 1) * depth) for depth in (1, 2, 1_000)]
    wide = [with_entry(whole, f"{kind}", ARRAY, struct.pack("<IQ", kind, 4_000_000)) for kind in (0, 7, 8, 12)]
    many = with_entry(
        with_entry(whole, "a", ARRAY, arrays := struct.pack("<IQ", 0, 3 << 20) + bytes(3 << 20)), "b", ARRAY, arrays
    )
    assert all_refused(huge, tmp_path, "where at most .* can be") == 5
    assert all_refused([*deep, put(whole, place, "<I", 13)], tmp_path, "a value of the type") == 4
    assert all_refused(wide, tmp_path, "ends in the middle|where at most .* can be") == 4
    refused(many, tmp_path, "where at most .* can be")


def test_tensors_of_no_shape_or_type(whole, tmp_path):
    places = [after(whole, name) for name in TENSORS]
    counts = [put(whole, place, "<I", count) for place in places for count in (5, 1 << 31)]
    assert all_refused(counts, tmp_path, "where at most 4 can be") == 6
    sides = [put(whole, place + SIDES, "<Q", side) for place in places for side in (0, 1 << 41, *HUGE[2:])]
    assert all_refused(sides, tmp_path, "has a shape that no tensor of its type has") == 12
    types = [put(whole, place + KIND, "<I", kind) for place in places for kind in (4, 5, 24, 27, 99, 1 << 31)]
    assert all_refused(types, tmp_path, "is stored in the type [0-9]+, which is not known") == 18
    blocks = put(put(whole, places[0] + KIND, "<I", 2), places[0] + SIDES, "<Q", 33)
    refused(blocks, tmp_path, "has a shape that no tensor of its type has")


def test_tensors_that_lie_elsewhere(whole, tmp_path):
    places = [after(whole, name) + OFFSET for name in TENSORS]
    beyond = [put(whole, place, "<Q", offset) for place in places for offset in (len(whole), *HUGE)]
    assert all_refused(beyond, tmp_path, "ends in the middle") == 15
    overlapping = [put(whole, place, "<Q", struct.unpack_from("<Q", whole, places[0])[0] + 32) for place in places[1:]]
    assert all_refused(overlapping, tmp_path, "overlaps another tensor") == 2


def test_names_that_come_twice(whole, tmp_path):
    twice = [whole.replace(b"llama.block_count", b"tokenizer.ggml.pr"), whole.replace(b"blk.1.attn_q", b"blk.0.attn_q")]
    refused(with_entry(whole, "general.architecture", STRING, named("llama")), tmp_path, "it has “general.arch.* twice")
    refused(twice[1], tmp_path, "it has “blk.0.attn_q.weight” twice")
    refused(twice[0], tmp_path)


def test_alignments_that_there_are_not(whole, tmp_path):
    alignments = (0, 3, 33, 1 << 17, 1 << 31)
    contents = [with_entry(whole, "general.alignment", UINT32, struct.pack("<I", size)) for size in alignments]
    contents.append(with_entry(whole, "general.alignment", STRING, named("32")))
    contents.append(with_entry(whole, "general.alignment", ARRAY, struct.pack("<IQ", 0, 0)))
    assert all_refused(contents, tmp_path, "its alignment is not a power of two") == 7


ABSURD = {
    "llama.block_count": (0, 1, 3, 2_000, 1 << 31),
    "llama.embedding_length": (0, 1, 1 << 30, (1 << 32) - 1),
    "llama.attention.head_count": (0, 5, 1 << 20),
    "llama.attention.head_count_kv": (0, 3, 1 << 20),
    "llama.context_length": (1 << 31, (1 << 32) - 1),
    "llama.feed_forward_length": (0, 1, 1 << 30),
}


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(("key", "values"), ABSURD.items())
def test_configs_that_no_model_has(whole, tmp_path, key, values):
    assert all_refused([with_value(whole, key, UINT32, value) for value in values], tmp_path) == len(values)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_configs_of_numbers_that_are_not_finite(whole, tmp_path, value):
    for key in ("llama.rope.freq_base", "llama.attention.layer_norm_rms_epsilon", "llama.block_count"):
        refused(with_value(whole, key, FLOAT32, value), tmp_path, "which no model can have")


def test_configs_of_texts_and_lists(whole, tmp_path):
    cut = whole.replace(named("llama.block_count"), named("llama.block_kount"))
    assert cut != whole
    others = [(STRING, named("2")), (ARRAY, struct.pack("<IQ", UINT32, 2) + struct.pack("<II", 2, 2)), (7, b"\1")]
    contents = [with_entry(cut, "llama.block_count", kind, content) for kind, content in others]
    assert all_refused(contents, tmp_path) == 3
    lists = [
        (ARRAY, struct.pack("<IQ", STRING, 1) + named("llama")),
        (UINT32, struct.pack("<I", 1)),
        (STRING, named("")),
    ]
    unknown = whole.replace(named("general.architecture"), named("general.arkhitecture"))
    contents = [unknown, *(with_entry(unknown, "general.architecture", kind, content) for kind, content in lists)]
    assert all_refused(contents, tmp_path, "which is not read from GGUF here") == 4


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite(path, whole, tmp_path, number):
    tensor = read_gguf(path).tensors[-1]
    content = put(whole, tensor.offset + tensor.size - 4, "<f", number)
    refused(content, tmp_path, f"has the tensor “{tensor.name}”, but it has numbers that are not finite")


def test_weights_that_are_missing_or_too_many(whole, tmp_path):
    refused(whole.replace(b"blk.1.attn_q.", b"blk.9.attn_q."), tmp_path, "but transformers has no place for it")
    sides = after(whole, "blk.0.ffn_up.weight") + SIDES
    swapped = put(put(whole, sides, "<Q", 128), sides + 8, "<Q", 64)
    refused(swapped, tmp_path, "“blk.0.ffn_up.weight”, but the config needs one of another shape")


def test_tokenizers_that_are_broken(whole, tmp_path):
    contents = [
        whole.replace(named("a g"), named("agg")),  # a merge of one part
        whole.replace(named("a g"), named("a €")[:8] + b"a \xc3"[:3]),
        whole.replace(named("gpt2"), named("none")),
        whole.replace(named("tokenizer.ggml.merges"), named("tokenizer.ggml.merge5")),
        whole.replace(named("tokenizer.ggml.model"), named("tokenizer.ggml.modle")),
        with_value(whole, "tokenizer.ggml.bos_token_id", UINT32, 1 << 20),
        with_value(whole, "tokenizer.ggml.bos_token_id", FLOAT32, 0.5),
    ]
    assert all_refused(contents, tmp_path) == 7


def test_heads_with_random_bytes(path, whole, tmp_path):
    numbers, start = random.Random(0), min(tensor.offset for tensor in read_gguf(path).tensors)
    sentences, file = set(), tmp_path / "broken.gguf"
    for _time in range(300):
        content = bytearray(whole)
        for _byte in range(numbers.randrange(1, 9)):
            content[numbers.randrange(start)] = numbers.randrange(256)
        file.write_bytes(content)
        try:
            config_json(read_gguf(file))  # names of tokens may be any
        except ValueError as error:
            sentences.add(str(error))
    assert len(sentences) > 20
    assert all(sentence.endswith(".") for sentence in sentences)
