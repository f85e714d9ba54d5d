"""Small models without a download, and what is shown of them."""

from collections.abc import Sequence
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import Tensor

from tests.support.seeded_models import IDS as IDS
from tests.support.seeded_models import SIZES, WORDS, drawn

TARGET = torch.tensor([[0, 7, 8]])
TEXT = " ".join(f"w{id}" for id in IDS[0].tolist())


def tokenizer() -> Any:
    """Returns a tokenizer whose tokens are named after their ids."""
    words = Tokenizer(WordLevel({"<pad>": 0, "</s>": 2} | {f"w{id}": id for id in range(3, WORDS)}, "<pad>"))
    words.pre_tokenizer = WhitespaceSplit()
    return hf.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<pad>", pad_token="<pad>", eos_token="</s>")


def t5() -> Any:
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    return drawn(hf.T5ForConditionalGeneration(hf.T5Config(vocab_size=WORDS, decoder_start_token_id=0, **sizes)))


def bert() -> Any:
    return drawn(hf.BertForMaskedLM(hf.BertConfig(**SIZES)))


def expect(viewer: Any, expected: dict[str, Tensor], tokens: Sequence[str] | None = None, atol: float = 1e-7) -> None:
    """Compares the maps of a viewer with weights (examples, heads, queries, keys), and the tokens of the first."""
    layers = viewer.layers
    assert [layer.name for layer in layers] == [*expected]
    for layer, weights in zip(layers, expected.values(), strict=True):
        torch.testing.assert_close(layer.maps().nan_to_num(0), weights[0], atol=atol, rtol=1e-5)
    assert tokens is None or layers[0].inputs.query_tokens == layers[0].inputs.key_tokens == tuple(tokens)
