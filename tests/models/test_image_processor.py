"""Image processors as read from a model's folder, against transformers' own of the same folder."""

import io
import json

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image

from attnviz.inputs import PatchGrid
from attnviz.models.image_inputs import image_inputs
from attnviz.models.image_processor import PROCESSORS, ImageProcessor

SIZES = [(90, 50), (31, 200), (40, 40)]
CLIP = {"image_processor_type": "CLIPImageProcessor"}
BIT = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 40}, "crop_size": 32}
VIT = {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}}


def noise(width, height):
    colors = np.random.default_rng(width).integers(0, 256, (height, width, 3), np.uint8)
    return Image.fromarray(colors)


def png(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def assert_equals_transformers(folder, config):
    """Asserts that the model's input is that of transformers' image processor, for several images."""
    config.save_pretrained(folder)
    inputs, own = image_inputs(config, folder), hf.AutoImageProcessor.from_pretrained(folder, backend="pil")
    assert inputs.note == ""
    for size in SIZES:
        image = noise(*size)
        expected = own(image, return_tensors="pt")["pixel_values"]
        torch.testing.assert_close(inputs.pixels(png(image)), expected, atol=1e-5, rtol=1e-5)
    return inputs


@pytest.mark.parametrize("name", sorted(PROCESSORS))
def test_each_processor_by_its_defaults(name, tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": name}))
    assert_equals_transformers(tmp_path, hf.ViTConfig(image_size=224))


@pytest.mark.parametrize(
    "settings",
    [
        VIT,
        VIT | {"size": 48},
        VIT | {"size": [20, 50], "resample": 3},
        VIT | {"do_resize": False},
        VIT | {"do_rescale": False},
        VIT | {"do_rescale": True, "rescale_factor": 0.01},
        VIT | {"do_normalize": False},
        VIT | {"image_mean": 0.25, "image_std": [0.1, 0.2, 0.3]},
        VIT | {"do_center_crop": True, "crop_size": {"height": 20, "width": 27}},
        VIT | {"size": None, "do_resize": None},
        VIT | {"do_normalize": None, "resample": 0},
        {"feature_extractor_type": "ViTFeatureExtractor", "size": 32},
        {"image_processor_type": "ViTImageProcessorFast", "size": {"height": 32, "width": 40}},
        BIT,
        BIT | {"do_center_crop": False},
        BIT | {"do_resize": False, "crop_size": {"height": 64, "width": 32}},  # wider and higher than some images
        CLIP | {"size": 36, "crop_size": 32},
        CLIP | {"size": {"shortest_edge": 36}, "crop_size": 52, "do_convert_rgb": True},
        {"size": {"shortest_edge": 37}, "crop_size": 32, "image_mean": [0.1, 0.2, 0.3]},  # by the type of the model
    ],
    ids=str,
)
def test_settings(settings, tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    config = hf.Dinov2Config(image_size=518, patch_size=14)
    inputs = assert_equals_transformers(tmp_path, config)
    assert inputs.pixels().shape[1] == 3


def test_settings_inside_those_of_a_processor_come_first(tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(VIT))
    (tmp_path / "processor_config.json").write_text(json.dumps({"image_processor": BIT}))
    assert assert_equals_transformers(tmp_path, hf.ViTConfig()).pixels().shape == (1, 3, 32, 32)


def test_a_model_gets_as_many_tokens_as_its_processor_makes(tmp_path):
    """DINOv2 says 518 in its config and 224 in its processor."""
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps(BIT | {"crop_size": 28, "size": {"shortest_edge": 32}})
    )
    assert image_inputs(hf.Dinov2Config(image_size=518, patch_size=14), tmp_path).pixels().shape == (1, 3, 28, 28)


def test_colors_that_are_shown_are_those_of_the_image(tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(VIT | {"do_resize": False}))
    image = noise(20, 30)
    shown = image_inputs(hf.ViTConfig(), tmp_path).input_image(png(image)).colors
    np.testing.assert_array_equal(shown, np.asarray(image))


@pytest.mark.parametrize(
    ("settings", "unknown"),
    [
        ({"image_processor_type": "ViltImageProcessor"}, "ViltImageProcessor"),
        ({"image_processor_type": "PreTrainedModel"}, "PreTrainedModel"),
        ({"image_processor_type": ["ViTImageProcessor"], "size": 10**9}, "size"),
        (VIT | {"size": {"height": 10**9, "width": 10**9}}, "size"),
        (VIT | {"size": 1e3}, "size"),
        (VIT | {"size": True}, "size"),
        (VIT | {"size": {"longest_edge": 32}}, "size"),
        (VIT | {"size": [32] * 10_000}, "size"),
        (VIT | {"do_center_crop": True, "crop_size": {"height": -1, "width": 3}}, "crop_size"),
        (VIT | {"resample": 9}, "resample"),
        (VIT | {"do_resize": "yes"}, "do_resize"),
        (VIT | {"rescale_factor": "1"}, "rescale_factor"),
        (VIT | {"rescale_factor": 1e400}, "rescale_factor"),
        (VIT | {"image_std": [1, 0, 1]}, "image_std"),
        (VIT | {"image_mean": [0.5] * 4}, "image_mean"),
        (VIT | {"do_pad": True}, "do_pad"),
    ],
    ids=str,
)
def test_what_is_not_known_is_said_and_a_square_is_seen(settings, unknown, tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    inputs = image_inputs(hf.ViTConfig(image_size=32), tmp_path)
    assert inputs.pixels(png(noise(90, 50))).shape == (1, 3, 32, 32)
    assert f"not supported here (“{unknown}”)" in inputs.note


def test_an_image_that_would_become_too_large(tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(BIT | {"do_center_crop": False}))
    inputs = image_inputs(hf.ViTConfig(), tmp_path)
    with pytest.raises(ValueError, match=r"makes 5,000 × 40 pixels of this image"):
        inputs.pixels(png(noise(500, 4)))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(BIT | {"size": {"shortest_edge": 4_096}}))
    with pytest.raises(ValueError, match=r"makes 4,096,000 × 4,096 pixels of this image"):
        image_inputs(hf.ViTConfig(), tmp_path).pixels(png(noise(1_000, 1)))


def test_without_a_file_the_size_of_the_config_is_a_square(tmp_path):
    assert image_inputs(hf.ViTConfig(image_size=48), tmp_path).pixels(png(noise(90, 50))).shape == (1, 3, 48, 48)
    assert image_inputs(hf.ViTConfig(image_size=[32, 48])).pixels().shape == (1, 3, 32, 48)
    assert image_inputs(hf.BertConfig()) is None


PLACED = {
    "stretched": ImageProcessor((32, 48)),
    "cropped": ImageProcessor(40, (32, 32)),
    "padded": ImageProcessor(24, (40, 40)),
    "cropped and padded": ImageProcessor(24, (32, 48)),
    "square": ImageProcessor((32, 32), square=True),
    "only cropped": ImageProcessor(None, (64, 80)),
    "as it is": ImageProcessor(None),
}


@pytest.mark.parametrize("size", [(200, 120), (97, 251), (128, 128)])
@pytest.mark.parametrize("name", PLACED)
def test_a_patch_lies_on_the_picture_where_the_model_sees_it(name, size):
    processor = PLACED[name]
    width, height = size
    seen_height, seen_width = processor.resized(Image.new("RGB", size)).shape[1:]
    grid = PatchGrid(4, 4, tuple(range(16)))
    placed = 0
    for patch in range(16):
        place = processor.place(width, height, grid.place(patch))
        left, top, right, bottom = map(round, place)
        if left < 0 or top < 0 or right > width or bottom > height:
            continue  # it has black that was added
        picture = np.zeros((height, width, 3), np.uint8)
        picture[top:bottom, left:right] = 255
        bright = processor.resized(Image.fromarray(picture))[0] > 127
        rows, columns = (bright.any(axis).nonzero()[0] for axis in (1, 0))
        expected = [
            side * length for side, length in zip(grid.place(patch), (seen_width, seen_height) * 2, strict=True)
        ]
        assert [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1] == pytest.approx(expected, abs=1)
        placed += 1
    assert placed >= 4


def test_what_is_added_lies_beyond_the_picture_and_what_is_cropped_inside():
    assert PLACED["padded"].place(48, 48) == (-16, -16, 64, 64)
    assert PLACED["cropped"].place(80, 40) == (24, 4, 56, 36)
    assert PLACED["square"].place(100, 50) == (25, 0, 75, 50)
    assert PLACED["stretched"].place(96, 64, (0.5, 0.5, 1.0, 0.75)) == (48, 32, 96, 48)
    assert PLACED["as it is"].place(7, 5) == (0, 0, 7, 5)
