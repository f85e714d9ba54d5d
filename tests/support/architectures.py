"""Models of many architectures, tiny and random, and how they compare with what `capture` shows of them.

`python -m tests.support.architectures` prints the table; a run of the tests does too.
"""

import inspect
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
import transformers as hf
from torch import Tensor

from attnviz.layer import Fidelity
from attnviz.tracing import capture, capturing

WORDS, N = 97, 14  # in the vocabulary, and in a text
SIZES = {"vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
SMALL = SIZES | {"num_attention_heads": 4, "max_position_embeddings": 64}
GROUPED = SMALL | {"num_key_value_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SLIDING = GROUPED | {"sliding_window": 5}
EXPERTS = {"num_local_experts": 3, "num_experts_per_tok": 2}
PICTURE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
BOTH = {
    "vocab_size": WORDS,
    "d_model": 32,
    "max_position_embeddings": 64,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 0,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
}
T5 = {
    "vocab_size": WORDS,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 16,
    "decoder_start_token_id": 0,
}
GPT = {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1}
WINDOWS = {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
SOUND = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "conv_dim": (16, 16),
    "conv_kernel": (10, 3),
    "conv_stride": (5, 2),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "feat_extract_norm": "layer",
    "mask_time_prob": 0.0,
}
LATENT = {
    "num_key_value_heads": 4,
    "moe_intermediate_size": 16,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 12,
    "head_dim": 4,
}
FALCON = {"vocab_size": WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
ALTERNATING = {"layer_types": ["sliding_attention", "full_attention"]}
WIDER = {"head_dim": 8, "global_head_dim": 16, "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": WORDS}
MIMO = {"head_dim": 8, "v_head_dim": 12, "moe_intermediate_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2}
OWN = Fidelity.WEIGHTS_ONLY
READS = "AutoModelForImageTextToText"
READER = SMALL | {"projection_dim": 16, "bos_token_id": 1, "eos_token_id": 2}


def text(padding: str = "right") -> dict[str, Tensor]:
    ids = torch.randint(4, WORDS - 2, (2, N), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(2, N, dtype=torch.long)
    mask[1, slice(0, 4) if padding == "left" else slice(N - 4, N)] = 0
    return {"input_ids": ids, "attention_mask": mask}


def left() -> dict[str, Tensor]:
    return text("left")


def both() -> dict[str, Tensor]:
    return text() | {"decoder_input_ids": text()["input_ids"][:, :9]}


def picture() -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))}


def picture_and_text() -> dict[str, Tensor]:
    return picture() | text()


def sound() -> dict[str, Tensor]:
    return {"input_values": torch.randn(2, 600, generator=torch.Generator().manual_seed(1))}


def spectrum() -> dict[str, Tensor]:
    features = torch.randn(2, 16, 60, generator=torch.Generator().manual_seed(1))
    return {"input_features": features, "decoder_input_ids": text()["input_ids"][:, :9]}


def encoded() -> dict[str, Tensor]:
    """A text, and what another model made of another one, of which the end is padding for the first."""
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[0, -3:] = 0
    states = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(1))
    return text() | {"encoder_hidden_states": states, "encoder_attention_mask": mask}


def caption() -> dict[str, Tensor]:
    return picture() | {"decoder_input_ids": text()["input_ids"][:, :9]}


def picture_in_text() -> dict[str, Tensor]:
    ids = torch.randint(4, 90, (2, 24), generator=torch.Generator().manual_seed(1))
    ids[:, 2:18] = WORDS - 1
    return picture() | {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def picture_seen() -> dict[str, Tensor]:
    """The same, with what says which tokens stand for the picture: they see each other."""
    given = picture_in_text()
    return given | {"token_type_ids": (given["input_ids"] == WORDS - 1).long()}


@dataclass(frozen=True)
class Architecture:
    name: str
    config: str
    sizes: Mapping[str, Any]
    given: Callable[[], dict[str, Tensor]] = text
    fidelity: Fidelity = Fidelity.VERIFIED
    layers: int = 2
    auto: str = "AutoModel"
    sharper: float = 1.5  # how much longer queries and keys are made; T5 does not divide by their length
    returned_by: str = ""  # the class of module that returns weights which the model drops

    def model(self) -> Any:
        """A model whose rows of attention are far from uniform, as a trained model's are."""
        torch.manual_seed(0)
        config = getattr(hf, self.config)(**self.sizes)
        model = getattr(hf, self.auto).from_config(config, attn_implementation="eager").eval()
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if weight.ndim >= 2:
                    spread = (2 / max(1, weight[0].numel())) ** 0.5 * (self.sharper if "att" in name.lower() else 1)
                elif name.endswith("sinks"):
                    spread = 1.0
                elif name.endswith("bias"):
                    spread = 0.2
                else:
                    continue
                weight.copy_(torch.randn(weight.shape, generator=generator) * spread)
        return model


# fmt: off
ZOO = (
    Architecture("BERT", "BertConfig", SMALL),
        Architecture("BERT, decoder", "BertConfig", SMALL | {"is_decoder": True, "add_cross_attention": True},
        encoded, layers=4),
    Architecture("RoBERTa", "RobertaConfig", SMALL | {"pad_token_id": 1}),
        Architecture("DistilBERT", "DistilBertConfig", {"vocab_size": WORDS, "dim": 32, "hidden_dim": 48, "n_layers":
        2, "n_heads": 4}),
    Architecture("ALBERT", "AlbertConfig", SMALL | {"embedding_size": 16}),
    Architecture("ELECTRA", "ElectraConfig", SMALL | {"embedding_size": 16}),
        Architecture("ModernBERT", "ModernBertConfig", SMALL | {"local_attention": 6, "global_attn_every_n_layers": 2,
        "pad_token_id": 0}),
        Architecture("ESM", "EsmConfig", SMALL | {"pad_token_id": 1, "mask_token_id": 3, "position_embedding_type":
        "rotary"}),
    Architecture("LayoutLM", "LayoutLMConfig", SMALL),
    Architecture("MPNet", "MPNetConfig", SMALL, fidelity=OWN),
        Architecture("DeBERTa-v2", "DebertaV2Config", SMALL | {"relative_attention": True, "pos_att_type": ["c2p",
        "p2c"], "position_buckets": 8}, fidelity=OWN),
        Architecture("RemBERT", "RemBertConfig", SMALL | {"input_embedding_size": 16, "output_embedding_size": 16},
        fidelity=OWN),
    Architecture("RoFormer", "RoFormerConfig", SMALL | {"embedding_size": 32}, fidelity=OWN),
    Architecture("BigBird, full", "BigBirdConfig", SMALL | {"attention_type": "original_full"}, fidelity=OWN),
        Architecture("XLNet", "XLNetConfig", {"vocab_size": WORDS, "d_model": 32, "n_layer": 2, "n_head": 4,
        "d_inner": 48}, left, fidelity=OWN),
    Architecture("GPT-2", "GPT2Config", GPT | {"scale_attn_by_inverse_layer_idx": True}, left),
    Architecture("GPTBigCode", "GPTBigCodeConfig", GPT, left),
    Architecture("GPT-NeoX", "GPTNeoXConfig", SMALL, left),
    Architecture("GPT-J", "GPTJConfig", GPT | {"rotary_dim": 4}, left, fidelity=OWN),
        Architecture("GPT-Neo", "GPTNeoConfig", {"vocab_size": WORDS, "hidden_size": 32, "num_layers": 2, "num_heads":
        4, "attention_types": [[["global", "local"], 1]], "window_size": 5, "max_position_embeddings": 64}, left,
        fidelity=OWN),
    Architecture("OPT", "OPTConfig", SMALL | {"ffn_dim": 48, "word_embed_proj_dim": 32}, left),
        Architecture("BLOOM", "BloomConfig", {"vocab_size": WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 4},
        left, fidelity=OWN),
        Architecture("MPT", "MptConfig", {"vocab_size": WORDS, "d_model": 32, "n_layers": 2, "n_heads": 4,
        "max_seq_len": 64}, left, fidelity=OWN),
    Architecture("Falcon", "FalconConfig", FALCON, left, fidelity=OWN),
    Architecture("Llama", "LlamaConfig", GROUPED, left),
    Architecture("Mistral", "MistralConfig", SLIDING | {"head_dim": 8}, left),
    Architecture("Mixtral", "MixtralConfig", GROUPED | EXPERTS, left),
    Architecture("Qwen2", "Qwen2Config", SLIDING | {"use_sliding_window": True, "max_window_layers": 1}, left),
    Architecture("Qwen3", "Qwen3Config", GROUPED | {"head_dim": 16}, left),
        Architecture("Qwen3-Next", "Qwen3NextConfig", GROUPED | {"head_dim": 16, "num_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
        "linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "layer_types": ["linear_attention", "full_attention"]}, left, layers=1),
        Architecture("Gemma 2", "Gemma2Config", SLIDING | {"head_dim": 16, "query_pre_attn_scalar": 24,
        "attn_logit_softcapping": 2.0}, left),
        Architecture("Gemma 3", "Gemma3TextConfig", SLIDING | ALTERNATING | {"head_dim": 16, "query_pre_attn_scalar":
        24}, left),
    Architecture("Phi-3", "Phi3Config", GROUPED, left),
    Architecture("gpt-oss", "GptOssConfig", SLIDING | EXPERTS | {"head_dim": 8}, left),
        Architecture("Llama 4", "Llama4TextConfig", GROUPED | {"head_dim": 8, "intermediate_size_mlp": 48,
        "num_local_experts": 2, "attention_chunk_size": 6, "no_rope_layer_interval": 2, "interleave_moe_layer_step":
        2, "attn_temperature_tuning": True, "floor_scale": 4, "attn_scale": 0.3}, left),
    Architecture("Cohere 2", "Cohere2Config", SLIDING, left),
    Architecture("OLMo 2", "Olmo2Config", GROUPED, left),
    Architecture("Doge", "DogeConfig", GROUPED | {"keep_window_size": 6}, left),
    Architecture("DeepSeek-V3", "DeepseekV3Config", SMALL | LATENT, left),
        Architecture("DeepSeek-V3.2", "DeepseekV32Config", SMALL | LATENT | {"index_topk": 4, "index_n_heads": 2,
        "index_head_dim": 8}, left),
        Architecture("Jamba", "JambaConfig", GROUPED | {"attn_layer_period": 2, "attn_layer_offset": 1,
        "use_mamba_kernels": False, "num_experts": 2}, left, layers=1),
    Architecture("MiniCPM3", "MiniCPM3Config", SMALL | LATENT, left),
    Architecture("EuroBERT", "EuroBertConfig", GROUPED),
    Architecture("Nomic BERT", "NomicBertConfig", SMALL),
    Architecture("DiffLlama", "DiffLlamaConfig", GROUPED, left, layers=4),
    Architecture("EXAONE 4", "Exaone4Config", SLIDING | ALTERNATING | {"head_dim": 8}, left),
    Architecture("Gemma 4", "Gemma4TextConfig", SLIDING | ALTERNATING | WIDER, left),
    Architecture("VaultGemma", "VaultGemmaConfig", SLIDING | ALTERNATING | {"head_dim": 8}, left),
    Architecture("MiMo-V2-Flash", "MiMoV2FlashConfig", SLIDING | ALTERNATING | MIMO, left),
    Architecture("Privacy filter", "OpenAIPrivacyFilterConfig", SLIDING | EXPERTS | {"head_dim": 8}),
    Architecture("T5", "T5Config", T5, both, layers=6, sharper=1.0),
    Architecture("UMT5", "UMT5Config", T5, both, layers=6, sharper=1.0),
    Architecture("BART", "BartConfig", BOTH, both, layers=4),
    Architecture("Marian", "MarianConfig", BOTH, both, layers=4),
    Architecture("Pegasus", "PegasusConfig", BOTH, both, layers=4),
    Architecture("M2M-100", "M2M100Config", BOTH, both, layers=4),
        Architecture("T5Gemma", "T5GemmaConfig", {"vocab_size": WORDS, "encoder": SLIDING | {"head_dim": 16},
        "decoder": SLIDING | {"head_dim": 16, "cross_attention_hidden_size": 32}}, both, layers=6),
        Architecture("Whisper", "WhisperConfig", BOTH | {"num_mel_bins": 16, "max_source_positions": 30,
        "max_target_positions": 40}, spectrum, layers=4),
    Architecture("wav2vec 2.0", "Wav2Vec2Config", SOUND, sound),
    Architecture("Conformer", "Wav2Vec2ConformerConfig", SOUND | {"position_embeddings_type": "relative"}, sound),
    Architecture("HuBERT", "HubertConfig", SOUND, sound),
    Architecture("ViT", "ViTConfig", PICTURE, picture),
    Architecture("DeiT", "DeiTConfig", PICTURE, picture),
    Architecture("DINOv2", "Dinov2Config", PICTURE, picture),
    Architecture("DINOv3", "DINOv3ViTConfig", PICTURE, picture),
    Architecture("I-JEPA", "IJepaConfig", PICTURE, picture),
    Architecture("BEiT", "BeitConfig", PICTURE | {"use_relative_position_bias": True}, picture),
    Architecture("Swin", "SwinConfig", WINDOWS, picture, layers=4),
        Architecture("Swin v2", "Swinv2Config", WINDOWS, picture, fidelity=OWN, layers=4,
        returned_by="Swinv2SelfAttention"),
        Architecture("CLIP", "CLIPConfig", {"text_config": READER, "vision_config": PICTURE | {"projection_dim": 16},
        "projection_dim": 16}, picture_and_text, layers=4),
        Architecture("SigLIP, vision", "SiglipVisionConfig", PICTURE | {"vision_use_head": False}, picture),
    Architecture("LLaVA", "LlavaConfig", {"vision_config": PICTURE | {"model_type": "clip_vision_model"},
        "text_config": GROUPED | {"model_type": "llama"}, "image_token_id": WORDS - 1, "vision_feature_layer": -2},
        picture_in_text, layers=4, auto=READS),
        Architecture("Gemma 3, seeing", "Gemma3Config", {"vision_config": PICTURE | {"model_type":
        "siglip_vision_model", "vision_use_head": False}, "text_config": SLIDING | ALTERNATING | {"model_type":
        "gemma3_text", "head_dim": 8}, "image_token_id": WORDS - 1, "mm_tokens_per_image": 16}, picture_seen,
        layers=4, auto=READS),
        Architecture("ViT and GPT-2", "VisionEncoderDecoderConfig", {"encoder": PICTURE | {"model_type": "vit"},
        "decoder": GPT | {"model_type": "gpt2", "is_decoder": True, "add_cross_attention": True}}, caption, layers=6,
        auto=READS),
)
# fmt: on


@contextmanager
def overheard(model: Any) -> Iterator[list[Tensor]]:
    """The weights that the model's own eager functions return, call after call."""
    heard: list[Tensor] = []
    forwards = {inspect.unwrap(type(module).forward) for module in model.modules()}
    places = {id(forward.__globals__): forward.__globals__ for forward in forwards}
    with ExitStack() as restored:
        for place in places.values():
            for name in [name for name, value in place.items() if "eager" in name and callable(value)]:

                def spy(*args: Any, own: Callable = place[name], **more: Any) -> Any:
                    result = own(*args, **more)
                    heard.append(result[1])
                    return result

                restored.enter_context(patch.dict(place, {name: spy}))
        yield heard


@torch.no_grad()
def eager(model: Any, given: Mapping[str, Tensor], returned_by: str = "") -> list[Tensor]:
    """The model's own attention, in the order in which it ran: (sequences, heads, queries, keys) each."""
    returned: list[Tensor] = []
    parts = [module for module in model.modules() if type(module).__name__ == returned_by]
    hooks = [part.register_forward_hook(lambda part, given, result: returned.append(result[1])) for part in parts]
    with overheard(model) as heard:
        result = model(**given, output_attentions=True)
    for hook in hooks:
        hook.remove()
    return returned or heard or list(result.attentions)


@dataclass(frozen=True)
class Row:
    """An architecture in the table."""

    name: str
    layers: int
    fidelity: str
    difference: float
    sharpness: float  # the mean of the greatest weight of each row
    missing: int

    def __str__(self) -> str:
        return f"{self.name:16} {self.layers:6}  {self.fidelity:14} {self.difference:18.1e}"


HEADER = f"{'architecture':16} {'layers':>6}  {'fidelity':14} {'largest difference':>18}"


def compared(architecture: Architecture) -> Row:
    """Every head of every layer of both examples, in the order of the calls, in the rows that are no padding.
    Both are captured, and the second one is watched."""
    model, given = architecture.model(), architecture.given()
    own, differences, sharpness = eager(model, given, architecture.returned_by), [0.0], []
    padding = given.get("attention_mask")
    with capturing(model, example=1) as traces:
        model(**given)
    seen = [(example, capture(model, given, example=example)) for example in range(2)] + [(1, traces[0])]
    for example, layers in seen:
        for layer, weights in zip(layers, own, strict=True):
            expected = side_by_side(weights, example)
            real = torch.ones(expected.shape[1], dtype=torch.bool)
            if padding is not None and padding.shape[1] == len(real):
                real = padding[example].bool()
            ours = layer.maps().nan_to_num(0)
            assert ours.shape == expected.shape, f"{architecture.name}, {layer.name}: {ours.shape}, {expected.shape}"
            differences.append(float((ours - expected)[:, real].abs().max()))
            sharpness.append(float(expected[:, real].amax(-1).mean()))
    fidelities = ", ".join(sorted({layer.fidelity for _, layers in seen for layer in layers}))
    mean, missing = sum(sharpness) / len(sharpness), sum(len(layers.missing) for _, layers in seen)
    return Row(architecture.name, len(layers), fidelities, max(differences), mean, missing)


def side_by_side(weights: Tensor, example: int) -> Tensor:
    """Weights of all windows of an example as one matrix for each head, in which no window sees another."""
    groups = len(weights) // 2
    of_example = weights[example * groups : (example + 1) * groups]
    return torch.stack([torch.block_diag(*windows) for windows in of_example.transpose(0, 1)])


def main() -> None:
    logging.disable()
    warnings.simplefilter("ignore")
    print(HEADER)
    for architecture in ZOO:
        print(compared(architecture))
    from tests.support.torch_architectures import TORCH_ZOO, compared_module

    for module in TORCH_ZOO:
        print(compared_module(module))


if __name__ == "__main__":
    main()
