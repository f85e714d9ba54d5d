"""The tokenizer in a GGUF file, in the form of transformers."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tokenizers import Regex, decoders, normalizers, pre_tokenizers

from attnviz.models.gguf_file import GgufFile
from attnviz.models.gguf_keys import MODEL, begins_texts, has_space_prefix, special_token_ids, split_rule

AROUND = ("add_bos_token", "add_eos_token")  # settings that are in tokenizer.json
SPACE = "▁"  # in place of a space, in SentencePiece
WITHOUT_PREFIX = (decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse())
WHOLE_WORDS = ("llama3", "tekken")  # rules with which a word that is a token is taken as it is


def _bytes(*before: Any, by_rule: bool = False) -> Any:
    """Returns pre-tokenizers in a row, then that of bytes, with GPT-2's rule or without."""
    return pre_tokenizers.Sequence([*before, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=by_rule)])


# Those of `SPLIT_RULES` that transformers does not know.
PRE_TOKENIZERS: dict[str, Callable[[], Any]] = {
    "smollm": lambda: _bytes(pre_tokenizers.Digits(individual_digits=True), by_rule=True),
    "bloom": lambda: _bytes(pre_tokenizers.Split(Regex(r" ?[^(\s|[.,!?…。，、।۔،])]+"), behavior="isolated")),
    "falcon": lambda: pre_tokenizers.Sequence(
        [
            pre_tokenizers.Punctuation(behavior="contiguous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
            pre_tokenizers.Digits(individual_digits=False),
            pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), behavior="isolated"),
        ]
    ),
}


class GgufTokenizer(NamedTuple):
    """The contents of tokenizer.json and of tokenizer_config.json."""

    tokenizer: str
    config: dict[str, Any]


def convert_tokenizer(gguf: GgufFile) -> GgufTokenizer:
    """Returns the tokenizer in a GGUF file: that of transformers' `AutoTokenizer.from_pretrained(gguf_file=…)`, with
    what transformers does not read, which are rules of splitting, and whether a text gets a space before it."""
    from transformers import PreTrainedTokenizerFast
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_TOKENIZER_MAPPING, convert_gguf_tokenizer

    known = gguf.metadata
    values, config = (
        {name: known[f"tokenizer.{key}"] for key, name in names.items() if f"tokenizer.{key}" in known}
        for names in (GGUF_TOKENIZER_MAPPING["tokenizer"], GGUF_TOKENIZER_MAPPING["tokenizer_config"])
    )
    rule = values["pre_tokenizer_type"] = split_rule(known) or ""
    tokenizer, _more = convert_gguf_tokenizer(known["general.architecture"], values)
    if rule in PRE_TOKENIZERS:
        tokenizer.pre_tokenizer = PRE_TOKENIZERS[rule]()
    if rule in WHOLE_WORDS:
        tokenizer.model.ignore_merges = True
    if known[MODEL] == "llama":
        _set_space_prefix(tokenizer, has_space_prefix(known))
    config.setdefault("add_bos_token", begins_texts(known))
    for name, number in special_token_ids(known).items():
        if number is not None:
            config[name] = values["tokens"][number]
    whole = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **config)  # with what it puts around each text
    kept = {name: value for name, value in config.items() if name not in AROUND}
    return GgufTokenizer(whole.backend_tokenizer.to_str(), {"tokenizer_class": "PreTrainedTokenizerFast", **kept})


def _set_space_prefix(tokenizer: Any, prefixed: bool) -> None:
    """Sets whether a text gets a space before it, in a tokenizer of SentencePiece's kind."""
    if tokenizer.normalizer is None:
        scheme = "first" if prefixed else "never"
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=False)
    else:
        escaped = normalizers.Replace(" ", SPACE)
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), escaped]) if prefixed else escaped
    tokenizer.decoder = decoders.Sequence([*WITHOUT_PREFIX, *([decoders.Strip(" ", 1, 0)] if prefixed else [])])
