"""Tiny random models of many families that read images, and what each is given of pictures."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

from tests.support.architectures import GROUPED, WORDS

SEEING = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
AS_THEY_ARE = {"do_resize": False, "do_rescale": False, "do_normalize": False}
IMAGE = WORDS - 1  # the id of an image's token in a text
START = WORDS - 2  # of what stands before images
LLAMA = GROUPED | {"model_type": "llama", "max_position_embeddings": 512}
READS = "AutoModelForImageTextToText"
ROTARY = {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4}}
BLOCKED = {"depth": 2, "num_heads": 4, "patch_size": 8, "spatial_merge_size": 2, "temporal_patch_size": 2}


def pixels(pictures: Tensor) -> dict[str, Any]:
    return {"pixel_values": pictures}


def in_text(tokens: int) -> Callable[[Tensor], dict[str, Any]]:
    """What a model that reads pictures of this many tokens each is given."""

    def given(pictures: Tensor) -> dict[str, Any]:
        count = len(pictures) if pictures.ndim == 4 else pictures.shape[1]
        ids = torch.tensor([[5, *([6, *[IMAGE] * tokens, 7] * count), 8]])
        return {"pixel_values": pictures, "input_ids": ids, "attention_mask": torch.ones_like(ids)}

    return given


def seen_in_text(tokens: int) -> Callable[[Tensor], dict[str, Any]]:
    def given(pictures: Tensor) -> dict[str, Any]:
        arguments = in_text(tokens)(pictures)
        return arguments | {"token_type_ids": (arguments["input_ids"] == IMAGE).long()}

    return given


def in_blocks(pictures: Tensor) -> dict[str, Any]:
    """What the processor of Qwen2-VL and its successors makes of pictures, and the text that they stand in."""
    qwen = hf.models.qwen2_vl.image_processing_pil_qwen2_vl
    processor = qwen.Qwen2VLImageProcessorPil(patch_size=8, temporal_patch_size=2, merge_size=2, **AS_THEY_ARE)
    given = dict(processor([*pictures.numpy()], return_tensors="pt", input_data_format="channels_first"))
    counts = [int(shape.prod()) // 4 for shape in given["image_grid_thw"]]
    ids = torch.tensor([[5, *(one for count in counts for one in (START, *[IMAGE] * count, 7))]])
    return given | {"input_ids": ids, "attention_mask": torch.ones_like(ids), "mm_token_type_ids": (ids == IMAGE).int()}


def sized(tokens: int) -> Callable[[Tensor], dict[str, Any]]:
    """The same for a model that is told the height and width of each picture."""

    def given(pictures: Tensor) -> dict[str, Any]:
        return in_text(tokens)(pictures) | {"image_sizes": torch.tensor([pictures.shape[-2:]] * len(pictures))}

    return given


def unpadded(pictures: Tensor) -> dict[str, Any]:
    """A wide picture and its two halves, of which the upper and lower quarters are padding."""
    ids = torch.tensor([[5, 6, *[IMAGE] * (16 + 4 * 9), 7, 8]])
    return {"pixel_values": pictures, "image_sizes": torch.tensor([[32, 64]]), "input_ids": ids}


def in_rows(pictures: Tensor) -> dict[str, Any]:
    """What the processor of SigLIP 2 makes of pictures."""
    processor = hf.Siglip2ImageProcessorPil(patch_size=8, max_num_patches=20, **AS_THEY_ARE)
    given = processor([*pictures.numpy()], return_tensors="pt", input_data_format="channels_first")
    return dict(given)


def captioned(pictures: Tensor) -> dict[str, Any]:
    return {"pixel_values": pictures, "input_ids": torch.tensor([[5, 6, 7]])}


def decoded(pictures: Tensor) -> dict[str, Any]:
    return {"pixel_values": pictures, "decoder_input_ids": torch.tensor([[5, 6, 7]])}


def heard(spectrograms: Tensor) -> dict[str, Any]:
    return {"input_features": spectrograms[:, 0], "decoder_input_ids": torch.tensor([[5, 6, 7]])}


def florence(pictures: Tensor) -> dict[str, Any]:
    return in_text(65)(pictures) | {"decoder_input_ids": torch.tensor([[5, 6, 7]])}


@dataclass(frozen=True)
class ImageModel:
    """A family, how its tiny model is made, and what it is given."""

    name: str
    config: str
    sizes: dict[str, Any]
    given: Callable[[Tensor], dict[str, Any]] = pixels
    auto: str = "AutoModel"
    shapes: tuple[tuple[int, ...], ...] = ((1, 3, 32, 32),)  # of the pictures
    grids: tuple[list[tuple[int, int]], ...] = ()  # rows and columns of each grid of the last stack, by shape
    options: dict[str, Any] = field(default_factory=dict)

    def model(self) -> nn.Module:
        torch.manual_seed(0)
        config = getattr(hf, self.config)(**self.sizes)
        model = getattr(hf, self.auto).from_config(config, attn_implementation="eager")
        for weight in model.parameters():
            if weight.ndim > 1 and weight.abs().max() < 1e-3:  # as Gemma 3's projection and all of BLIP begin
                nn.init.normal_(weight, std=0.2)
        return model.eval()


WIDE = (((1, 3, 48, 64), (1, 3, 32, 96), (2, 3, 32, 64)), ([(3, 4)], [(2, 6)], [(2, 4)] * 2))
ONE = (((1, 3, 32, 32),), ([(4, 4)],))
ONE_AND_TWO = (((1, 3, 32, 32), (2, 3, 32, 32)), ([(4, 4)], [(4, 4)] * 2))
TILED = ([(2, 2)], [(2, 2)] * 3)
TWO = ((1, 3, 32, 32), (1, 3, 48, 16))
TALL = ([(4, 4)], [(6, 2)])
ANY_SIZE = {"options": {"interpolate_pos_encoding": True}, "shapes": TWO, "grids": TALL}
SIGLIP = SEEING | {"model_type": "siglip_vision_model", "vision_use_head": False}
QWEN = GROUPED | ROTARY
PLACES = {"image_token_id": IMAGE, "vision_start_token_id": START}
FAMILIES = (
    ImageModel("ViT", "ViTConfig", SEEING, **ANY_SIZE),
    ImageModel("CLIP, vision", "CLIPVisionConfig", SEEING, **ANY_SIZE),
    ImageModel("DINOv2", "Dinov2Config", SEEING, shapes=TWO, grids=TALL),
    ImageModel(
        "LLaVA",
        "LlavaConfig",
        {
            "vision_config": SEEING | {"model_type": "clip_vision_model"},
            "text_config": LLAMA,
            "image_token_id": IMAGE,
            "vision_feature_layer": -2,
        },
        in_text(16),
        READS,
        *ONE_AND_TWO,
    ),
    ImageModel(
        "Qwen2.5-VL",
        "Qwen2_5_VLConfig",
        {
            "vision_config": BLOCKED
            | {
                "hidden_size": 32,
                "intermediate_size": 48,
                "out_hidden_size": 32,
                "window_size": 32,
                "fullatt_block_indexes": [1],
            },
            "text_config": QWEN | {"model_type": "qwen2_5_vl_text"},
            **PLACES,
        },
        in_blocks,
        READS,
        *WIDE,
    ),
    ImageModel(
        "Qwen2-VL",
        "Qwen2VLConfig",
        {
            "vision_config": BLOCKED | {"embed_dim": 32, "hidden_size": 32, "mlp_ratio": 2},
            "text_config": QWEN | {"model_type": "qwen2_vl_text"},
            **PLACES,
        },
        in_blocks,
        READS,
        *WIDE,
    ),
    ImageModel(
        "Qwen3-VL",
        "Qwen3VLConfig",
        {
            "vision_config": BLOCKED
            | {
                "hidden_size": 32,
                "intermediate_size": 48,
                "out_hidden_size": 32,
                "num_position_embeddings": 16,
                "deepstack_visual_indexes": [0],
            },
            "text_config": QWEN | {"model_type": "qwen3_vl_text", "head_dim": 8},
            **PLACES,
        },
        in_blocks,
        READS,
        *WIDE,
    ),
    ImageModel(
        "Qwen3.5",
        "Qwen3_5Config",
        {
            "vision_config": BLOCKED
            | {"hidden_size": 32, "intermediate_size": 48, "out_hidden_size": 32, "num_position_embeddings": 16},
            "text_config": GROUPED
            | ROTARY
            | {"model_type": "qwen3_5_text", "head_dim": 8, "layer_types": ["full_attention"] * 2},
            **PLACES,
        },
        in_blocks,
        READS,
        *WIDE,
    ),
    ImageModel(
        "GLM-4V",
        "Glm4vConfig",
        {
            "vision_config": BLOCKED
            | {"hidden_size": 32, "intermediate_size": 48, "out_hidden_size": 32, "image_size": 32},
            "text_config": GROUPED
            | ROTARY
            | {"model_type": "glm4v_text", "num_attention_heads": 1, "num_key_value_heads": 1},
            **PLACES,
            "image_start_token_id": START,
            "image_end_token_id": 7,
        },
        in_blocks,
        READS,
        *WIDE,
    ),
    ImageModel("SigLIP, vision", "SiglipVisionConfig", SEEING, **ANY_SIZE),
    ImageModel(
        "Gemma 3",
        "Gemma3Config",
        {
            "vision_config": SIGLIP | {"image_size": 64},
            "text_config": GROUPED | {"model_type": "gemma3_text", "head_dim": 8, "sliding_window": 64},
            "image_token_id": IMAGE,
            "mm_tokens_per_image": 16,
        },
        seen_in_text(16),
        READS,
        ((1, 3, 64, 64), (2, 3, 64, 64)),
        ONE_AND_TWO[1],
    ),
    ImageModel(
        "PaliGemma",
        "PaliGemmaConfig",
        {
            "vision_config": SIGLIP | {"projection_dim": 32},
            "text_config": GROUPED | {"model_type": "gemma", "head_dim": 8},
            "image_token_id": IMAGE,
            "projection_dim": 32,
        },
        seen_in_text(16),
        READS,
        *ONE_AND_TWO,
    ),
    ImageModel(
        "SmolVLM",
        "SmolVLMConfig",
        {
            "vision_config": SEEING | {"model_type": "smolvlm_vision"},
            "text_config": LLAMA,
            "image_token_id": IMAGE,
            "scale_factor": 2,
            "pad_token_id": 0,
        },
        in_text(4),
        READS,
        ((1, 1, 3, 32, 32), (1, 3, 3, 32, 32)),
        TILED,
    ),
    ImageModel(
        "Idefics3",
        "Idefics3Config",
        {
            "vision_config": SEEING | {"model_type": "idefics3_vision"},
            "text_config": LLAMA,
            "image_token_id": IMAGE,
            "scale_factor": 2,
            "pad_token_id": 0,
        },
        in_text(4),
        READS,
        ((1, 1, 3, 32, 32), (1, 3, 3, 32, 32)),
        TILED,
    ),
    ImageModel(
        "InternVL",
        "InternVLConfig",
        {
            "vision_config": SEEING | {"model_type": "internvl_vision", "image_size": [32, 32], "patch_size": [8, 8]},
            "text_config": LLAMA,
            "image_token_id": IMAGE,
            "downsample_ratio": 0.5,
            "image_seq_length": 4,
        },
        in_text(4),
        READS,
        ((1, 3, 32, 32), (3, 3, 32, 32)),
        TILED,
    ),
    ImageModel(
        "SegFormer",
        "SegformerConfig",
        {"depths": [1] * 4, "hidden_sizes": [8, 16, 32, 32], "num_attention_heads": [1, 2, 4, 4]},
        shapes=((1, 3, 64, 96),),
        grids=([(2, 3)],),
    ),
    ImageModel("DeiT", "DeiTConfig", SEEING, **ANY_SIZE),
    ImageModel(
        "DINOv2 with registers",
        "Dinov2WithRegistersConfig",
        SEEING | {"num_register_tokens": 2},
        shapes=TWO,
        grids=TALL,
    ),
    ImageModel("DINOv3", "DINOv3ViTConfig", SEEING | {"num_register_tokens": 2}, shapes=TWO, grids=TALL),
    ImageModel("BEiT", "BeitConfig", SEEING | {"use_relative_position_bias": True}, **ANY_SIZE),
    ImageModel(
        "Swin",
        "SwinConfig",
        {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4},
        shapes=((1, 3, 32, 32), (1, 3, 32, 64), (1, 3, 36, 44)),
        grids=([(8, 8)], [(8, 16)], [(9, 11)]),
    ),
    ImageModel(
        "Pixtral",
        "LlavaConfig",
        {
            "vision_config": SEEING | {"model_type": "pixtral", "head_dim": 8},
            "text_config": LLAMA,
            "image_token_id": IMAGE,
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full",
        },
        in_text(16),
        READS,
        *ONE_AND_TWO,
    ),
    ImageModel(
        "Mistral 3",
        "Mistral3Config",
        {
            "vision_config": SEEING | {"model_type": "pixtral", "head_dim": 8},
            "text_config": LLAMA | {"model_type": "mistral"},
            "image_token_id": IMAGE,
            "vision_feature_layer": -1,
            "spatial_merge_size": 2,
        },
        sized(4),
        READS,
        ONE_AND_TWO[0],
        ([(2, 2)], [(2, 2)] * 2),
    ),
    ImageModel(
        "LLaVA-NeXT",
        "LlavaNextConfig",
        {
            "vision_config": SEEING | {"model_type": "clip_vision_model"},
            "text_config": LLAMA,
            "image_token_id": IMAGE,
            "vision_feature_layer": -2,
            "image_grid_pinpoints": [[32, 64], [64, 32]],
        },
        unpadded,
        READS,
        ((1, 3, 3, 32, 32),),
        ([(4, 4)] * 3,),
    ),
    ImageModel(
        "LLaVA-OneVision",
        "LlavaOnevisionConfig",
        {
            "vision_config": SIGLIP,
            "text_config": LLAMA,
            "image_token_id": IMAGE,
            "vision_feature_layer": -1,
            "image_grid_pinpoints": [[32, 64], [64, 32]],
        },
        unpadded,
        READS,
        ((1, 3, 3, 32, 32),),
        ([(4, 4)] * 3,),
    ),
    ImageModel(
        "SigLIP 2, any size",
        "Siglip2VisionConfig",
        {k: v for k, v in SEEING.items() if k != "image_size"} | {"num_patches": 16},
        in_rows,
        shapes=TWO,
        grids=TALL,
    ),
    ImageModel(
        "BLIP",
        "BlipConfig",
        {
            "vision_config": SEEING,
            "text_config": GROUPED | {"encoder_hidden_size": 32, "projection_dim": 16},
            "projection_dim": 16,
            "image_token_id": IMAGE,
        },
        captioned,
        READS,
        *ONE,
    ),
    ImageModel(
        "BLIP-2",
        "Blip2Config",
        {
            "vision_config": SEEING,
            "qformer_config": {
                "vocab_size": WORDS,
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "intermediate_size": 48,
                "encoder_hidden_size": 32,
            },
            "text_config": {
                "model_type": "opt",
                "vocab_size": WORDS,
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "ffn_dim": 48,
                "word_embed_proj_dim": 32,
                "max_position_embeddings": 64,
            },
            "num_query_tokens": 4,
            "image_token_id": IMAGE,
        },
        in_text(4),
        READS,
        ONE[0],
        ([],),
    ),
    ImageModel(
        "Idefics2",
        "Idefics2Config",
        {
            "vision_config": SEEING,
            "perceiver_config": {
                "hidden_size": 32,
                "resampler_n_latents": 4,
                "resampler_depth": 1,
                "resampler_n_heads": 4,
                "resampler_head_dim": 8,
                "num_key_value_heads": 4,
                "rms_norm_eps": 1e-5,
            },
            "text_config": LLAMA | {"model_type": "mistral"},
            "image_token_id": IMAGE,
        },
        in_text(4),
        READS,
        ((1, 1, 3, 32, 32),),
        ([],),
    ),
    ImageModel(
        "Donut",
        "VisionEncoderDecoderConfig",
        {
            "encoder": {
                "model_type": "donut-swin",
                "image_size": [32, 64],
                "patch_size": 2,
                "embed_dim": 16,
                "depths": [2, 2],
                "num_heads": [2, 4],
                "window_size": 4,
            },
            "decoder": {
                "model_type": "mbart",
                "vocab_size": WORDS,
                "d_model": 32,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "decoder_attention_heads": 4,
                "decoder_ffn_dim": 48,
                "is_decoder": True,
                "add_cross_attention": True,
                "max_position_embeddings": 64,
            },
        },
        decoded,
        READS,
        ((1, 3, 32, 64),),
        ([(8, 16)],),
    ),
    ImageModel(
        "Florence-2",
        "Florence2Config",
        {
            "vision_config": {
                "depths": [1, 1],
                "embed_dim": [16, 32],
                "num_heads": [2, 4],
                "num_groups": [2, 4],
                "window_size": 4,
                "patch_size": [7, 3],
                "patch_stride": [4, 2],
                "patch_padding": [3, 1],
                "patch_prenorm": [False, True],
                "projection_dim": 32,
            },
            "text_config": {
                "model_type": "bart",
                "vocab_size": WORDS,
                "d_model": 32,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "encoder_attention_heads": 4,
                "decoder_attention_heads": 4,
                "encoder_ffn_dim": 48,
                "decoder_ffn_dim": 48,
                "max_position_embeddings": 128,
            },
            "image_token_id": IMAGE,
            "is_encoder_decoder": True,
        },
        florence,
        READS,
        ((1, 3, 64, 64),),
        ([(8, 8)],),
    ),
    ImageModel(
        "Whisper",
        "WhisperConfig",
        {
            "vocab_size": WORDS,
            "d_model": 32,
            "encoder_layers": 2,
            "decoder_layers": 1,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            "num_mel_bins": 16,
            "max_source_positions": 30,
            "max_target_positions": 16,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 3,
        },
        heard,
        shapes=((1, 1, 16, 60),),
        grids=([(1, 30)],),
    ),
    ImageModel(
        "Llama 4",
        "Llama4Config",
        {
            "vision_config": {
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "intermediate_size": 128,
                "vision_output_dim": 32,
                "image_size": 32,
                "patch_size": 8,
                "pixel_shuffle_ratio": 0.5,
                "projector_input_dim": 32,
                "projector_output_dim": 32,
            },
            "text_config": GROUPED
            | {"head_dim": 8, "intermediate_size_mlp": 48, "num_local_experts": 2, "model_type": "llama4_text"},
            "image_token_id": IMAGE,
            "image_token_index": IMAGE,
        },
        in_text(4),
        READS,
        ((1, 3, 32, 32), (3, 3, 32, 32)),
        TILED,
    ),
)
