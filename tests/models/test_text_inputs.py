"""Texts as a model takes them, and the names of their tokens."""

import json

import pytest
import transformers as hf

from attnviz.models.loading import inspect_folder
from tests.support.tiny_models import SMALL, TEXT, byte_level


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma2", "t5", "bart"])
def test_tokens_are_what_was_typed(loaded, name):
    given = loaded[name].encode(TEXT)
    assert given.batch["input_ids"][0].tolist() == loaded[name].tokenizer(TEXT)["input_ids"]
    assert given.batch["attention_mask"].all()
    typed = [token for i, token in enumerate(given.source.tokens) if i not in given.source.special]
    assert "".join("".join(typed).split()) == "".join(TEXT.split())


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5"])
def test_tokens_of_an_odd_text_are_pieces_of_it(loaded, name):
    text = "Fox,  DÓG\n over a naïve e\u0301 🎉 fox"
    given = loaded[name].encode(text).source
    at = 0
    for i, token in enumerate(given.tokens):
        shown = token.strip(" ").removeprefix("##").partition("·")[0]
        if i not in given.special and shown:
            assert shown in text
            at = text.index(shown, max(at - 2, 0)) if shown.strip() else at
    assert at >= len(text) - 4


def test_bytes_of_one_character_are_told_apart(loaded):
    tokens = loaded["gpt2"].encode("🎉").source.tokens
    assert len(tokens) == len("🎉".encode())
    assert {token.partition("·")[0] for token in tokens} == {"🎉"}
    assert len(set(tokens)) == len(tokens)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma2", "t5", "vit"])
def test_every_layer_is_named_by_what_it_reads(loaded, name):
    given = loaded[name]
    layers = given.layers("" if name == "vit" else TEXT)
    assert {layer.kind for layer in layers} <= {"self", "causal", "cross"}
    for layer in layers:
        assert not layer.inputs.query_tokens[-1].isdecimal()
        assert not layer.inputs.key_tokens[-1].isdecimal()


def test_a_pair_of_texts_is_told_apart(loaded):
    source = loaded["bert"].encode("the fox", "a Naïve dog").source
    words = {of: "".join(t for t, s in zip(source.tokens, source.segments, strict=True) if s == of) for of in (0, 1)}
    assert words == {0: "thefox", 1: "aNaïvedog"}
    assert [source.tokens[i] for i in source.special] == ["[CLS]", "[SEP]", "[SEP]"]
    assert [source.segments[i] for i in source.special] == [None, None, None]
    (first, *_) = loaded["bert"].layers("the fox", "a Naïve dog")
    assert first.inputs.query_tokens == first.inputs.key_tokens == source.tokens


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_a_decoder_goes_on_by_itself_as_generate_does(saved, loaded, name):
    given = loaded[name].encode(TEXT)
    own = hf.AutoModelForSeq2SeqLM.from_pretrained(saved / name).eval()
    ids = hf.AutoTokenizer.from_pretrained(saved / name)(TEXT, return_tensors="pt")["input_ids"]
    written = own.generate(ids, do_sample=False, num_beams=1, max_new_tokens=32, suppress_tokens=[0])[0].tolist()
    if written[-1] == own.config.eos_token_id and len(written) > 1:
        written = written[:-1]
    assert given.batch["decoder_input_ids"][0].tolist() == written
    assert len(given.target.tokens) == len(written)
    assert given.target.special == (0,)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_a_target_that_is_given(loaded, name):
    given = loaded[name].encode(TEXT, "a lazy dog")
    ids = loaded[name].tokenizer("a lazy dog")["input_ids"]
    start = loaded[name].model.config.decoder_start_token_id
    assert given.batch["decoder_input_ids"][0].tolist() == [start, *ids[:-1]]
    assert "".join("".join(given.target.tokens[1:]).split()) == "alazydog"
    assert loaded[name].output(given).shape == (120,)


def test_a_target_without_an_end_is_kept_whole(copied):
    folder = copied("t5")
    said = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(said | {"post_processor": None}))
    given = inspect_folder(folder).load()
    reading = given.encode(TEXT, "a lazy dog")
    ids = given.tokenizer("a lazy dog")["input_ids"]
    assert reading.batch["decoder_input_ids"][0].tolist()[1:] == ids
    assert "".join("".join(reading.target.tokens[1:]).split()) == "alazydog"


def test_the_three_kinds_of_attention_have_the_tokens_that_they_relate(loaded):
    layers = loaded["bart"].layers(TEXT, "a lazy dog")
    given = loaded["bart"].encode(TEXT, "a lazy dog")
    source, target = given.source.tokens, given.target.tokens
    assert [(layer.inputs.query_tokens, layer.inputs.key_tokens) for layer in layers] == [
        (source, source),
        (target, target),
        (target, source),
    ]
    assert [layer.kind for layer in layers] == ["self", "causal", "cross"]


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("bert", {"text": ""}, "There is no text yet"),
        ("bert", {"text": " \n"}, "There is no text yet"),
        ("gpt2", {"text": "half \ud83d"}, "half a character"),
        ("bert", {"text": "fox " * 60}, "This text has 62 tokens, and bert reads at most 48"),
        ("gpt2", {"text": "fox " * 80}, "tokens, and gpt2 reads at most 64"),
        ("bert", {"text": "fox " * 30, "pair": "dog " * 30}, "tokens, and bert reads at most 48"),
        ("t5", {"text": "fox " * 100}, "tokens, and t5 reads at most 64"),
        ("t5", {"text": "fox", "pair": "dog " * 100}, "tokens, and t5 reads at most 64"),
        ("bert", {"text": "x" * 100_001}, "This text has 100,001 characters"),
        ("bert", {"text": "\x01"}, "bert finds no token in this text"),
        ("vit", {"text": "fox"}, "vit sees images, and reads no text"),
        ("bert", {"text": "fox", "image": b"x"}, "bert reads text, and sees no images"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_read_is_refused_in_words(loaded, name, given, words):
    with pytest.raises(ValueError, match=words):
        loaded[name].layers(**given)


def test_a_forward_that_fails_is_said_in_words_and_not_kept(loaded, monkeypatch):
    given = loaded["bert"]
    with monkeypatch.context() as failing:
        failing.setattr(given.model.embeddings, "forward", lambda *_, **__: 1 / 0)
        with pytest.raises(ValueError, match=r"bert fails on this example. The reason given is: “division by zero”"):
            given.layers("a fox")
    assert len(given.layers("a fox")) == 2


def test_a_roberta_reads_two_tokens_less_than_its_table_of_positions(tmp_path):
    hf.RobertaModel(
        hf.RobertaConfig(vocab_size=300, max_position_embeddings=20, pad_token_id=1, **SMALL)
    ).save_pretrained(tmp_path)
    byte_level().save_pretrained(tmp_path)
    given = inspect_folder(tmp_path).load()
    assert given.limit == 18
    with pytest.raises(ValueError, match=r"tokens, and .* reads at most 18"):
        given.layers("a b c d e f g h i j k l m n o p q r s t")


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5", "bart"])
def test_a_word_has_the_tokens_that_a_model_writes(loaded, name):
    inputs = loaded[name].text_inputs
    ids = inputs.word_ids("fox")
    assert [inputs.tokenizer.decode(ids, skip_special_tokens=skip).strip() for skip in (False, True)] == ["fox"] * 2
