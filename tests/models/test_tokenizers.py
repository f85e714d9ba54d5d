"""Tokenizers that name files, are damaged, missing or another model's."""

import json

import pytest
import transformers as hf

from attnviz.models.loading import inspect_folder
from tests.support.tiny_models import TEXT, byte_fallback, refusal

NAMED = [
    *({key: "secret.txt"} for key in ("vocab", "merges", "tokenizer_object", "vocab_file", "gguf_file")),
    *({key: ["secret.txt"]} for key in ("init_inputs", "fast_tokenizer_files")),
]


@pytest.mark.parametrize("named", NAMED, ids=lambda named: next(iter(named)))
def test_a_tokenizer_cannot_name_files_to_be_read(copied, tmp_path, named):
    (tmp_path / "secret.txt").write_text("root\nsecret\n[UNK]")
    folder = copied(without=("tokenizer.json",))
    text = json.dumps(named).replace("secret.txt", str(tmp_path / "secret.txt"))
    for file, words in (
        ("tokenizer_config.json", "names a file in “{}”"),
        ("special_tokens_map.json", "says what “{}” is, but may only name special tokens"),
    ):
        (folder / file).write_text(text)
        assert f"{file} {words.format(next(iter(named)))}" in refusal(folder)
        (folder / file).unlink()


@pytest.mark.parametrize("said", [{"name_or_path": "/etc"}, {"is_local": False}, {"local_files_only": False}], ids=str)
def test_special_tokens_cannot_say_where_the_tokenizer_is(copied, said):
    folder = copied()
    (folder / "special_tokens_map.json").write_text(json.dumps({"unk_token": "[UNK]"} | said))
    assert f"special_tokens_map.json says what “{next(iter(said))}” is" in refusal(folder)


def test_special_tokens_of_any_name(copied):
    folder = copied()
    said = {"unk_token": "[UNK]", "image_token": {"content": "<image>"}, "additional_special_tokens": ["<a>"]}
    (folder / "special_tokens_map.json").write_text(json.dumps(said))
    assert inspect_folder(folder).load().encode(TEXT).source.tokens


@pytest.mark.parametrize("without", [(), ("tokenizer.json",)])
def test_a_tokenizer_file_that_is_named_is_not_the_one_that_is_read(copied, saved, tmp_path, without):
    folder = copied(without=without)
    own = inspect_folder(folder).load().tokenizer
    other = json.loads((saved / "bert" / "tokenizer.json").read_text().replace('"the"', '"elsewhere"'))
    (tmp_path / "other.json").write_text(json.dumps(other))
    said = json.loads((folder / "tokenizer_config.json").read_text()) | {"tokenizer_file": str(tmp_path / "other.json")}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    found = inspect_folder(folder).load().tokenizer
    assert "elsewhere" in json.dumps(other)
    names = [tokenizer and tokenizer.convert_ids_to_tokens(list(range(120))) for tokenizer in (own, found)]
    assert names[0] == names[1]


def test_what_a_tokenizer_was_made_from_may_be_noted(copied):
    folder = copied()
    said = json.loads((folder / "tokenizer_config.json").read_text())
    said |= {"special_tokens_map_file": "/root/map.json", "tokenizer_file": None, "name_or_path": "/root/bert"}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    assert inspect_folder(folder).load().encode(TEXT).source.tokens


def test_a_model_without_a_tokenizer_says_what_is_missing(copied):
    given = inspect_folder(
        copied(without=("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"))
    ).load()
    with pytest.raises(ValueError, match=r"bert has no tokenizer that can be read.*Put the tokenizer\.json"):
        given.layers(TEXT)


MERGED = {"vocab.json": '{"a": 0, "b": 1}', "tokenizer_config.json": '{"tokenizer_class": "GPT2Tokenizer"}'}


NEWER = {"version": "1.0", "added_tokens": [], "model": {"type": "New", "vocab": {}}}


@pytest.mark.parametrize(
    "files",
    [
        *({"tokenizer.json": text} for text in ("{", "[]", '{"version": "1.0"}', "\0" * 100)),
        {
            "tokenizer.json": json.dumps(NEWER),
            "tokenizer_config.json": '{"tokenizer_class": "PreTrainedTokenizerFast"}',
        },
        MERGED | {"merges.txt": "#version\na b c\nq\n"},
        MERGED | {"merges.txt": "#version\nx y\n"},
    ],
    ids=["cut off", "list", "empty", "zeros", "newer", "merges of three", "merges of no tokens"],
)
def test_a_damaged_tokenizer_counts_as_none(copied, files):
    folder = copied(without=("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"))
    for name, text in files.items():
        (folder / name).write_text(text)
    with pytest.raises(ValueError, match="bert has no tokenizer that can be read"):
        inspect_folder(folder).load().layers(TEXT)


def test_a_tokenizer_of_another_model(copied):
    folder = copied()
    byte_fallback().save_pretrained(folder)
    with pytest.raises(ValueError, match=r"gives the token number \d+, but the model knows only 120"):
        inspect_folder(folder).load().layers(TEXT)


@pytest.mark.parametrize("kind", ["bytes", "characters"])
def test_a_tokenizer_in_python_names_bytes_and_roles_in_its_process_too(tmp_path, kind):
    if kind == "bytes":
        sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0}
        model, tokenizer = hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=384, **sizes)), hf.ByT5Tokenizer()
        names = ("n", "é·byte 0xC3", "é·byte 0xA9", "</s>")
    else:
        sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
        model, tokenizer = hf.CanineModel(hf.CanineConfig(**sizes, num_hash_buckets=32)), hf.CanineTokenizer()
        names = ("[CLS]", "n", "é", "[SEP]")
    model.save_pretrained(tmp_path / kind)
    tokenizer.save_pretrained(tmp_path / kind)
    loaded = inspect_folder(tmp_path / kind).load()
    assert loaded.encode("né").source.tokens == names
