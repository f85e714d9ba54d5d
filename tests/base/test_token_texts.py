"""The texts of tokens: with their spaces, pieces of words and bytes."""

from functools import cache
from itertools import compress
from typing import Any

import pytest
import transformers as hf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from attnviz.base.formatting import visible
from attnviz.base.token_texts import VocabularyToken, texts_of_batch, token_names
from tests.support.built_tokenizers import built_tokenizers

BYTE_LEVEL = sorted(pre_tokenizers.ByteLevel.alphabet())


@pytest.mark.parametrize(
    ("name", "decoded", "text"),
    [
        ("The", "The", "The"),
        ("ĠThe", " The", "␣The"),
        ("▁The", "The", "␣The"),  # of SentencePiece, which decodes a first token without its space
        ("ĠĠĠ", "   ", "␣␣␣"),
        ("▁", "", "␣"),
        ("The▁", "The ", "The␣"),
        ("ĠĊ", " \n", "␣␊"),
        ("##s", "##s", "##s"),
        ("»", "\ufffd", "byte 0xBB"),
        ("<0xBB>", "\ufffd", "byte 0xBB"),
        ("<0x0A>", "\n", "␊"),
        ("ĠðŁ", " \ufffd", "bytes 0x20 0xF0 0x9F"),
        ("Ġa", "Ġa", "Ġa"),  # the letter, where the tokenizer has no such sign
        ("[7]", "", "[7]"),
        ("ł</w>", "\ufffd", "byte 0xA0"),  # of CLIP
    ],
)
def test_a_token_by_itself(name: str, decoded: str, text: str) -> None:
    assert visible(VocabularyToken(name, decoded).text) == text


@pytest.mark.parametrize(
    ("name", "decoded", "typed", "text"),
    [
        ("Ġnaive", " naive", "Naïve", "␣Naïve"),  # without the case and the accents
        ("▁dog", "dog", "\ndog", "␣dog"),
        ("##s", "##s", "S", "##S"),
        ("##", "##", "##", "##"),
        (";Ċ", ";\n", ";\n", ";␊"),
        ("[UNK]", "[UNK]", "🎉", "🎉"),
    ],
)
def test_a_token_as_it_was_typed(name: str, decoded: str, typed: str, text: str) -> None:
    assert visible(VocabularyToken(name, decoded).as_typed(typed)) == text


@cache
def tokenizer_of(kind: str, trim: bool = False) -> Any:
    """A tokenizer of a kind, made of single characters."""
    if kind == "bytes":
        own = Tokenizer(models.BPE({name: i for i, name in enumerate([*BYTE_LEVEL, "Ġa"])}, [("Ġ", "a")]))
        own.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        own.decoder, own.post_processor = decoders.ByteLevel(), processors.ByteLevel(trim_offsets=trim)
    elif kind == "fallback":
        names = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "▁a"]
        vocabulary = {name: i for i, name in enumerate(names)}
        own = Tokenizer(models.BPE(vocabulary, [("▁", "a")], unk_token="<unk>", byte_fallback=True))
        own.normalizer = normalizers.Replace(" ", "▁")
        own.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    else:
        names = ["[UNK]", "[CLS]", "[SEP]", "a", "##b", "für", "ä", "Ã¼", "Ġarb", "ł"]
        own = Tokenizer(models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
        own.pre_tokenizer, own.decoder = pre_tokenizers.WhitespaceSplit(), decoders.WordPiece()
        own.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return hf.PreTrainedTokenizerFast(tokenizer_object=own)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("bytes", "你 a", "你·byte 0xE4|你·byte 0xBD|你·byte 0xA0|␣a"),
        ("bytes", "é", "é·byte 0xC3|é·byte 0xA9"),
        ("bytes", "a🎉", "a|" + "|".join(f"🎉·byte 0x{byte:02X}" for byte in "🎉".encode())),
        ("bytes", "b\na", "b|␊|a"),
        ("bytes", "é \ufffd", "é·byte 0xC3|é·byte 0xA9|␣|\ufffd·byte 0xEF|\ufffd·byte 0xBF|\ufffd·byte 0xBD"),
        ("fallback", "é a", "é·byte 0xC3|é·byte 0xA9|␣a"),
        ("fallback", " a b", "␣a|␣|b"),
        ("fallback", "a\nb", "a|␊|b"),
        ("words", "ab für ä", "[CLS]|a|##b|für|ä|[SEP]"),
        ("words", "ä", "[CLS]|ä|[SEP]"),  # which is the name of a byte elsewhere
        ("words", "ł", "[CLS]|ł|[SEP]"),
        ("words", "Ã¼ a", "[CLS]|Ã¼|a|[SEP]"),  # which are the names of the bytes of ü
        ("words", "Ġarb a", "[CLS]|Ġarb|a|[SEP]"),
    ],
)
@pytest.mark.parametrize("trim", [False, True])
def test_names_from_a_tokenizer_its_methods_and_its_batch(kind, text, expected, trim) -> None:
    tokenizer = tokenizer_of(kind, trim)
    batch = tokenizer(["a", text])
    ids = batch["input_ids"][1]
    for names in (
        token_names(tokenizer, ids),
        token_names(tokenizer.convert_ids_to_tokens, ids),
        texts_of_batch(batch, 1),
    ):
        assert [visible(name) for name in names] == expected.split("|")


def test_a_batch_and_ids_have_the_same_names_in_all_classes() -> None:
    read = set()
    for tokenizer in built_tokenizers():
        for text in (" a b", "ab é", "é \ufffd b", "a  b", "ä ü", "你 a", "🎉 b", "a\ufffd", "aéaé"):
            if type(tokenizer).__name__.startswith(("Layout", "Udop")):  # of words in boxes
                batch = tokenizer(text.split(), boxes=[[0] * 4] * len(text.split()))
            else:
                batch = tokenizer(text, "é a")
            if not batch.encodings:  # of a tokenizer in Python
                assert texts_of_batch(batch, 0) == ()
                continue
            names = texts_of_batch(batch, 0), token_names(tokenizer, batch["input_ids"])
            # Herbert's special tokens have other ids in its own vocabulary.
            is_own = [not mark for mark in batch.encodings[0].special_tokens_mask]
            shown, expected = ([*compress(texts, is_own)] for texts in names)
            assert (type(tokenizer), shown) == (type(tokenizer), expected)
        read.add(type(tokenizer))
    assert len(read) >= 60


def test_accents_that_a_tokenizer_composes_are_read_as_bytes() -> None:
    composing = hf.Qwen2Tokenizer(vocab={name: i for i, name in enumerate(BYTE_LEVEL)}, merges=[])
    batch = composing("e\u0301 b")
    assert token_names(composing, batch["input_ids"]) == ("é·byte 0xC3", "é·byte 0xA9", " ", "b")
    assert texts_of_batch(batch, 0) == ("é·byte 0xC3", "é·byte 0xA9", " ", "b")


def test_a_first_text_that_is_cut_off_leaves_the_names_of_the_second() -> None:
    tokenizer = tokenizer_of("bytes")
    batch = tokenizer("a 你", "é", truncation="only_first", max_length=5)
    expected = ("a", " ", "byte 0xE4", "é·byte 0xC3", "é·byte 0xA9")
    assert texts_of_batch(batch, 0) == token_names(tokenizer, batch["input_ids"]) == expected


@pytest.mark.parametrize("kind", [hf.ByT5Tokenizer, hf.PerceiverTokenizer, hf.DiaTokenizer])
def test_bytes_that_are_named_by_characters_are_parts_of_characters(kind) -> None:
    names = token_names(kind(), kind()("né 🎉", add_special_tokens=False)["input_ids"])
    emoji = [f"🎉·byte 0x{byte:02X}" for byte in "🎉".encode()]
    assert [*names] == ["n", "é·byte 0xC3", "é·byte 0xA9", " ", *emoji]


def test_special_tokens_that_cannot_be_printed_have_the_name_of_their_role() -> None:
    tokenizer = hf.CanineTokenizer()
    assert token_names(tokenizer, tokenizer("né")["input_ids"]) == ("[CLS]", "n", "é", "[SEP]")


def test_a_character_that_is_cut_off_has_the_numbers_of_its_bytes() -> None:
    tokenizer = tokenizer_of("bytes")
    batch = tokenizer("a 你", truncation=True, max_length=4)
    names = [visible(name) for name in texts_of_batch(batch, 0)]
    assert names == ["a", "␣", "byte 0xE4", "byte 0xBD"]
    assert names == [visible(name) for name in token_names(tokenizer, batch["input_ids"])]


def test_tokens_that_were_added_and_pairs_of_texts_are_read_beside_bytes() -> None:
    tokenizer = tokenizer_of("bytes")
    tokenizer.add_tokens(["<｜User｜>"])
    batch = tokenizer("<｜User｜>é", "é a")
    expected = ["<｜User｜>", "é·byte 0xC3", "é·byte 0xA9", "é·byte 0xC3", "é·byte 0xA9", "␣a"]
    assert [visible(name) for name in texts_of_batch(batch, 0)] == expected
    assert [visible(name) for name in token_names(tokenizer, batch["input_ids"])] == expected


def test_a_batch_that_does_not_keep_its_tokens_has_no_names() -> None:
    assert texts_of_batch(hf.ByT5Tokenizer()("hé"), 0) == ()
    assert texts_of_batch({"input_ids": []}, 0) == ()


@pytest.mark.parametrize("tokens", [lambda ids: "ab", lambda ids: ["a"], "ab"])
def test_what_does_not_name_each_token_is_refused(tokens) -> None:
    with pytest.raises(ValueError, match="tokens must be a text for each token, or make one of each of 2 token ids"):
        token_names(tokens, [3, 4])
