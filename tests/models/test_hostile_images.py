"""Images of every kind, and a thousand files that were changed: each is shown as it is, or refused in a sentence."""

import io
import struct
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from transformers.image_transforms import convert_to_rgb

from attnviz.models.image_inputs import MOST_PIXELS, ImageInputs, opened_image
from attnviz.models.image_processor import ImageProcessor

CHANGES = 1_000
INPUTS = ImageInputs(ImageProcessor((16, 16)), (16, 16))


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def colors(content: bytes) -> np.ndarray:
    """The colors that are shown, 0 to 1, (height, width, 3)."""
    return INPUTS.input_image(content).colors / 255


def photo(size: tuple[int, int] = (40, 30)) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (*size[::-1], 3), np.uint8))


RED = (1.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (encoded(Image.new("RGB", (1, 1), "red")), RED),
        (encoded(Image.new("RGB", (20_000, 10), "red")), RED),
        (encoded(Image.new("CMYK", (40, 20), (0, 255, 255, 0)), "JPEG"), RED),
        (encoded(Image.new("RGB", (9, 9), "red").quantize(4)), RED),
        (encoded(Image.new("1", (9, 9), 1)), (1.0, 1.0, 1.0)),
        (encoded(Image.new("L", (9, 9), 51)), (0.2, 0.2, 0.2)),
        (encoded(Image.fromarray(np.full((9, 9), 13_107, np.uint16))), (0.2, 0.2, 0.2)),
        (encoded(Image.new("RGBA", (9, 9), (255, 0, 0, 255)), "WEBP", lossless=True), RED),
    ],
    ids=["one pixel", "20,000 × 10", "CMYK", "palette", "1 bit", "gray", "16 bits", "opaque"],
)
def test_an_image_of_any_kind_has_its_own_colors(content: bytes, expected: tuple[float, ...]) -> None:
    np.testing.assert_allclose(colors(content), np.broadcast_to(expected, (16, 16, 3)), atol=0.03)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_is_white_as_image_processors_make_it(mode: str) -> None:
    image = photo()
    image.putalpha(Image.linear_gradient("L").resize(image.size))
    content = encoded(image.convert(mode), **({"transparency": 3} if mode == "P" else {}))
    expected = convert_to_rgb(Image.open(io.BytesIO(content)), return_numpy=True)
    np.testing.assert_array_equal(np.asarray(opened_image(content)), expected)


def test_an_image_far_larger_than_that_says_its_limit() -> None:
    content = encoded(Image.new("1", (30_000, 30_000)))
    with pytest.raises(ValueError, match="more than 32,000,000 pixels"):
        colors(content)


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_of_an_animation_the_first_image_is_shown(kind: str) -> None:
    frames = [Image.new("RGB", (30, 30), color) for color in ("red", "blue")]
    content = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
    np.testing.assert_allclose(colors(content)[8, 8], RED, atol=0.05)


def test_an_image_that_says_it_is_huge_is_refused_before_it_is_read() -> None:
    content = encoded(Image.new("L", (8, 8)))
    side = int(MOST_PIXELS**0.5) + 1
    bomb = content[:16] + struct.pack(">II", side, side) + content[24:]
    with pytest.raises(ValueError, match=r"pixels; at most|not an image"):
        colors(bomb)


def test_what_a_file_says_beside_its_pixels_is_dropped() -> None:
    info = PngInfo()
    info.add_text("Author", "somebody")
    shown, plain = (colors(encoded(photo(), pnginfo=one)) for one in (info, None))
    np.testing.assert_array_equal(shown, plain)


def cut(content: bytearray, chance: np.random.Generator) -> None:
    del content[int(chance.integers(len(content))) :]


def flipped(content: bytearray, chance: np.random.Generator) -> None:
    for place in chance.integers(0, len(content), int(chance.integers(1, 20))):
        content[place] = int(chance.integers(256))


def header(content: bytearray, chance: np.random.Generator) -> None:
    for place in chance.integers(0, min(64, len(content)), 3):
        content[place] = int(chance.integers(256))


def longer(content: bytearray, chance: np.random.Generator) -> None:
    place = int(chance.integers(len(content)))
    content[place:place] = chance.bytes(int(chance.integers(1, 200)))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_changed_file_is_an_image_or_is_refused(kind: str) -> None:
    original = encoded(photo(), kind)
    changes: list[Callable[[bytearray, np.random.Generator], None]] = [cut, flipped, header, longer]
    refused = 0
    for seed in range(CHANGES // 3):
        chance, content = np.random.default_rng(seed), bytearray(original)
        changes[seed % len(changes)](content, chance)
        try:
            shown = colors(bytes(content))
        except ValueError:
            refused += 1
        else:
            assert shown.shape == (16, 16, 3)
            assert ((shown >= 0) & (shown <= 1)).all()
    assert refused > CHANGES // 12
