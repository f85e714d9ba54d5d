"""Pictures as a model takes them, and the names of their patches."""

import io

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from attnviz.models.drawings import drawing
from attnviz.models.loading import inspect_folder
from tests.support.tiny_models import SMALL, TEXT, png, word_pieces


def test_patches_of_a_picture_are_named_by_row_and_column(loaded):
    given = loaded["vit"]
    assert given.modality == "picture"
    for layer in given.layers():
        assert layer.inputs.query_tokens == ("[CLS]", *(f"{row}·{column}" for row in range(4) for column in range(4)))
        assert layer.inputs.special_keys == (0,)
    pixels = given.encode().batch["pixel_values"]
    torch.testing.assert_close(pixels[0], drawing(32, 32) * 2 - 1)


def test_a_model_that_would_see_a_picture_without_end(tmp_path):
    small = {"embed_dim": 16, "depths": [1], "num_heads": [2], "window_size": 4}
    hf.SwinModel(hf.SwinConfig(image_size=8_192, patch_size=64, **small)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="does not say how large the images are"):
        inspect_folder(tmp_path).load().layers()


def test_a_model_of_two_towers_is_given_a_text_and_a_picture(tmp_path):
    text = SMALL | {"vocab_size": 120, "bos_token_id": 2, "eos_token_id": 3}
    vision = SMALL | {"image_size": 32, "patch_size": 8}
    hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config=vision)).save_pretrained(tmp_path)
    word_pieces().save_pretrained(tmp_path)
    given = inspect_folder(tmp_path).load()
    assert given.modality == "text and picture"
    ends = {layer.inputs.query_tokens[-2:] for layer in given.layers(TEXT, image=png((40, 40)))}
    assert ends == {(".", "[SEP]"), ("3·2", "3·3")}


def test_a_picture_is_cut_to_a_square_and_has_the_models_colors(loaded, copied):
    pixels = loaded["vit"].encode(image=png((90, 50))).batch["pixel_values"]
    assert pixels.shape == (1, 3, 32, 32)
    np.testing.assert_allclose(pixels[0, :, 5, 5], [1, -1, -1], atol=1e-6)
    folder = copied("vit")
    (folder / "preprocessor_config.json").write_text(
        '{"size": 32, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.5, 2]}'
    )
    pixels = inspect_folder(folder).load().encode(image=png((90, 50))).batch["pixel_values"]
    np.testing.assert_allclose(pixels[0, :, 5, 5], [1.8, -0.4, -0.15], atol=1e-6)


def test_colors_that_are_no_numbers_are_not_taken(copied):
    folder = copied("vit")
    (folder / "preprocessor_config.json").write_text('{"image_mean": [NaN, 0, 1], "image_std": [1, Infinity, 1]}')
    pixels = inspect_folder(folder).load().encode(image=png((9, 9))).batch["pixel_values"]
    np.testing.assert_allclose(pixels[0, :, 5, 5], [1, -1, -1], atol=1e-6)


def test_a_picture_stands_upright(loaded):
    turned = Image.new("RGB", (40, 40))
    turned.paste((255, 255, 255), (0, 0, 40, 10))  # at the top of the file; on the right when it is turned
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6
    turned.save(file, "PNG", exif=exif)
    pixels = loaded["vit"].encode(image=file.getvalue()).batch["pixel_values"][0, 0]
    assert (pixels[:, -4:] > 0.9).all()
    assert (pixels[:, :16] < -0.9).all()


def long_text():
    """A picture with more text beside it than Pillow takes."""
    info = PngInfo()
    info.add_text("a", "x" * 3_000_000, zip=True)
    file = io.BytesIO()
    Image.new("RGB", (4, 4)).save(file, "PNG", pnginfo=info)
    return file.getvalue()


def damaged_exif():
    """A picture that is to be turned, and whose height is said to be a text."""
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112], exif[0x010E] = 6, "described"
    Image.new("RGB", (4, 4)).save(file, "JPEG", exif=exif)
    assert file.getvalue().count(b"\x01\x0e\0\x02") == 1
    return file.getvalue().replace(b"\x01\x0e\0\x02", b"\x01\x01\0\x02")


@pytest.mark.parametrize(
    "image",
    [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n" + bytes(50), png((40, 40))[:60], long_text(), damaged_exif()],
    ids=len,
)
def test_a_picture_that_is_none(loaded, image):
    with pytest.raises(ValueError, match=r"This is not an image that can be read. Use a PNG, JPEG or WebP file"):
        loaded["vit"].layers(image=image)


def test_a_picture_without_end(loaded):
    with pytest.raises(ValueError, match=r"6,000 × 6,000 pixels; at most 32,000,000 are read"):
        loaded["vit"].layers(image=png((6_000, 6_000)))
