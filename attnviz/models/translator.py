"""The small translator from English into French, as a model of transformers.

Its architecture is that of Blenderbot: an encoder–decoder with the norms before attention. Its English and its French
words are one vocabulary there, of which only the French ones are written.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnviz.models.built_in import BuiltInModel
from attnviz.models.hub import Hub, Progress
from attnviz.models.loading import ModelFolder, inspect_weights
from attnviz.models.tokenizer_process import Encoding
from attnviz.translator.encoder_decoder import (
    D_FF,
    D_MODEL,
    END,
    HEADS,
    LAYERS,
    MAX_POSITIONS,
    PAD,
    POSITIONS,
    START,
    TARGET_VOCABULARY,
)
from attnviz.translator.lexicon import ENGLISH
from attnviz.translator.translation import detokenize
from attnviz.translator.typed_words import english_words, french_words
from attnviz.translator.weights import FOLDER, load

NAME = "translator"
VOCABULARY = (*ENGLISH, *TARGET_VOCABULARY)
FRENCH = len(ENGLISH)  # the id of the first French word
SPECIAL = (FRENCH + PAD, FRENCH + START, FRENCH + END)
ENGLISH_IDS, FRENCH_IDS = (
    {VOCABULARY[id]: id for id in ids} for ids in (range(FRENCH), range(FRENCH, len(VOCABULARY)))
)
CONFIG = {
    "architectures": ["BlenderbotForConditionalGeneration"], "model_type": "blenderbot", "is_encoder_decoder": True,
    "vocab_size": len(VOCABULARY), "d_model": D_MODEL, "max_position_embeddings": MAX_POSITIONS,
    "encoder_layers": LAYERS, "encoder_attention_heads": HEADS, "encoder_ffn_dim": D_FF,
    "decoder_layers": LAYERS, "decoder_attention_heads": HEADS, "decoder_ffn_dim": D_FF,
    "activation_function": "relu", "scale_embedding": True, "tie_word_embeddings": True,
    "pad_token_id": FRENCH + PAD, "bos_token_id": FRENCH + START, "decoder_start_token_id": FRENCH + START,
    "eos_token_id": FRENCH + END, "forced_eos_token_id": None, "encoder_no_repeat_ngram_size": 0,
}  # fmt: skip
# The names of modules in the translator and in Blenderbot: of all, and of norms in a layer of each stack.
MODULES = {
    "attention.": "self_attn.", "cross.": "encoder_attn.", "query": "q_proj", "key": "k_proj", "value": "v_proj",
    "output": "out_proj", "inner.0": "fc1", "inner.2": "fc2",
}  # fmt: skip
NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}


class WordTokenizer:
    """The words of the translator's grammar as tokens, with the methods that `TextInputs` uses of a tokenizer."""

    is_fast = True
    tokens_are_words = True
    model_max_length = MAX_POSITIONS
    all_special_ids = SPECIAL
    target_ids = range(FRENCH, len(VOCABULARY))  # of what the decoder reads and writes

    def __call__(self, text: str | None = None, *, text_target: str | None = None, **_options: Any) -> Encoding:
        """Returns the tokens of an English text, or of a French one as the target. Raises ValueError for a text that
        the translator does not know."""
        words, known = (
            (english_words(text or ""), ENGLISH_IDS) if text_target is None else (french_words(text_target), FRENCH_IDS)
        )
        ids = [known[typed.word] for typed in words]
        return Encoding(
            input_ids=ids,
            special_tokens_mask=[0] * len(ids),
            offset_mapping=[(typed.start, typed.end) for typed in words],
            sequence_ids=[0] * len(ids),
        )

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        """Returns the words."""
        return [VOCABULARY[id] for id in ids]

    def decode(self, ids: Any, *, skip_special_tokens: bool = False) -> Any:
        """Returns the text of token ids, or of each list of them."""
        ids = ids.tolist() if isinstance(ids, Tensor) else ids
        if ids and not isinstance(ids[0], int):
            return [self.decode(one, skip_special_tokens=skip_special_tokens) for one in ids]
        return detokenize([VOCABULARY[id] for id in ids if not (skip_special_tokens and id in SPECIAL)])


class TranslatorModel(BuiltInModel):
    """The translator. Its attention, its words and their probabilities are those of `attnviz.translator.load()`.

    Example:
        >>> translator().layers("The cat sleeps.")[-1]
        Layer(decoder 1 cross: cross, 4 heads, 5 queries × 4 keys, verified)
    """

    not_installed = ""  # it comes with attnviz

    def find(self, hub: Hub) -> Path | None:
        return FOLDER

    def open(self, place: Path, progress: Progress) -> ModelFolder:
        return inspect_weights(NAME, CONFIG, _weights(), WordTokenizer())


translator = TranslatorModel()


def _weights() -> dict[str, Tensor]:
    """Returns the weights by the names that Blenderbot has for them."""
    state = load().model.state_dict()
    words = torch.cat([state.pop("english.weight")[1:], state.pop("french.weight")])  # without English padding
    weights = {_name(name): tensor.clone() for name, tensor in state.items()}
    for stack in ("encoder", "decoder"):
        weights[f"model.{stack}.embed_positions.weight"] = POSITIONS.clone()
    written = torch.arange(len(VOCABULARY)) >= FRENCH
    return weights | {
        "model.shared.weight": words,
        "final_logits_bias": torch.zeros(1, len(VOCABULARY)).masked_fill(~written, -torch.inf),
    }


def _name(name: str) -> str:
    """Returns the name of a weight in Blenderbot."""
    stack, *rest = name.split(".")
    if stack == "norms":  # after the last layer
        return f"model.{('encoder', 'decoder')[int(rest[0])]}.layer_norm.{rest[1]}"
    layer, part, *more = rest
    if part == "norms":
        return f"model.{stack}.layers.{layer}.{NORMS[stack][int(more[0])]}.{more[1]}"
    inner = ".".join([part, *more])
    for own, there in MODULES.items():
        inner = inner.replace(own, there)
    return f"model.{stack}.layers.{layer}.{inner}"
