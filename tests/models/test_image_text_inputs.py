"""Models that read an image and a text, from a folder, against their own processors and their own attention."""

import io
import json
from contextlib import suppress

import pytest
import torch
import transformers as hf
from PIL import Image

from attnviz.base.language import language
from attnviz.layer import Fidelity
from attnviz.models.chat import ChatMessage, encode_chat
from attnviz.models.drawings import drawing_file
from attnviz.models.input_image import tiled_image
from attnviz.models.loading import inspect_folder
from attnviz.models.sampling import Sampler
from attnviz.models.written_text import writers_of
from tests.support.image_text_models import MODELS, own_processor, save_model
from tests.support.tiny_models import png

TEXT = "The quick brown fox"
WIDE = drawing_file(48, 80, "house and tree")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A function that returns the folder of a model, which nobody changes."""
    made = {}

    def folder(name):
        if name not in made:
            made[name] = save_model(name, tmp_path_factory.mktemp(name))
        return made[name]

    return folder


@pytest.mark.parametrize("name", MODELS)
def test_what_a_model_is_given_and_its_attention_are_its_own(folders, name):
    model = inspect_folder(folders(name)).load()
    assert (model.modality, model.outputs, model.notes) == ("text and picture", "next token", ())
    own = hf.AutoModelForImageTextToText.from_pretrained(folders(name), attn_implementation="eager").eval()
    picture = Image.open(io.BytesIO(WIDE)).convert("RGB")
    given = own_processor(name, folders(name))(
        text=[MODELS[name].written + TEXT], images=[picture], return_tensors="pt"
    )
    given.pop("labels", None)  # of PaliGemma, for training
    inputs, trace = model.encode(TEXT, image=WIDE), model.layers(TEXT, image=WIDE)
    assert inputs.batch.keys() == given.keys()
    assert all(torch.equal(inputs.batch[key], given[key]) for key in given)
    assert not trace.missing
    with torch.no_grad():
        result = own(**given, output_attentions=True)
    of_text = [layer for layer in trace if layer.id.stack == "text"]
    for layer, weights in zip(of_text, result.attentions, strict=True):
        assert layer.locked_reason == ""
        torch.testing.assert_close(layer.maps().nan_to_num(), weights[0], atol=2e-6, rtol=0)
    torch.testing.assert_close(model.output(inputs), result.logits[0, -1])
    image_id = own.config.image_token_id
    places = (inputs.batch["input_ids"][0] == image_id).nonzero()[:, 0].tolist()
    patches = {position for grid in of_text[0].inputs.grids for position in grid.positions}
    assert patches <= {*places}
    assert {*places} <= {*inputs.source.of_image}
    assert not patches & {*inputs.source.special}
    assert of_text[0].inputs.key_tokens[-3:] == (
        (" brown", " fox", "\n") if name == "paligemma" else of_text[0].inputs.key_tokens[-3:]
    )


@pytest.mark.parametrize("name", ["llava", "qwen2-vl", "smolvlm", "gemma3", "paligemma", "llava-next"])
def test_what_is_written_about_an_image_is_the_models_own(folders, name):
    model = inspect_folder(folders(name)).load()
    own = hf.AutoModelForImageTextToText.from_pretrained(folders(name), attn_implementation="eager").eval()
    inputs = model.encode(TEXT, image=WIDE)
    text = writers_of(model).write(4, model, TEXT, Sampler(), (), image=WIDE)
    count = len(inputs.source.tokens)
    options = {"do_sample": False, "output_attentions": True, "return_dict_in_generate": True}
    result = own.generate(**inputs.batch, max_new_tokens=4, **options)
    assert [step.token_id for step in text.steps] == result.sequences[0, count:].tolist()
    of_text = [layer for layer in text.trace if layer.id.stack == "text"]
    assert not text.trace.missing
    assert len(of_text) == len(result.attentions[0])
    for index, layer in enumerate(of_text):
        assert layer.fidelity is Fidelity.VERIFIED
        rows = [step[index][0] for step in result.attentions]
        rows = torch.cat([torch.nn.functional.pad(row, (0, count + 3 - row.shape[-1])) for row in rows], 1)
        torch.testing.assert_close(layer.maps().nan_to_num(), rows, atol=2e-6, rtol=0)
        before = next(one for one in model.layers(TEXT, image=WIDE) if one.id == layer.id).inputs
        assert layer.inputs.query_grids == layer.inputs.key_grids == before.query_grids
        assert layer.inputs.query_tokens[:count] == before.query_tokens
    shown = "".join(part for i, part in enumerate(text.parts[:count]) if i not in text.of_image)
    assert TEXT in shown
    assert not any(part and part in shown for part in (MODELS[name].image, MODELS[name].written, MODELS[name].start))


def test_a_chat_about_an_image_has_it_in_the_first_message_of_the_user(folders):
    model = inspect_folder(folders("smolvlm")).load()
    messages = [ChatMessage("system", "lazy dog"), ChatMessage("user", TEXT)]
    batch, tokens, roles = encode_chat(model, messages, WIDE)
    own = own_processor("smolvlm", folders("smolvlm"))
    parts = [[{"type": "text", "text": "lazy dog"}], [{"type": "image"}, {"type": "text", "text": TEXT}]]
    chat = [{"role": role, "content": content} for role, content in zip(("system", "user"), parts, strict=True)]
    written = own.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    picture = Image.open(io.BytesIO(WIDE)).convert("RGB")
    given = own(text=[written], images=[picture], return_tensors="pt", add_special_tokens=False)
    assert torch.equal(batch["input_ids"], given["input_ids"])
    for role, content in (("user", TEXT), ("system", "lazy dog")):
        assert "".join(one for one, own in zip(tokens.tokens, roles, strict=True) if own == role).strip() == content
    assert {roles[i] for i in tokens.of_image} == {""}


def test_an_image_of_too_many_tokens_is_refused_before_it_is_read(folders, monkeypatch):
    monkeypatch.setattr("attnviz.models.written_text.MOST_READ", 16)
    model = inspect_folder(folders("qwen2-vl")).load()
    monkeypatch.setattr(model.model, "forward", None)
    with pytest.raises(ValueError, match=r"^The image and the prompt have 2\d tokens .+ at most 16 here"):
        writers_of(model).write(2, model, TEXT, Sampler(), (), image=WIDE)


SEEN = {"llava": (1, 32, 32), "qwen2-vl": (1, 48, 80), "gemma3": (1, 64, 64), "smolvlm": (5, 64, 98)}


@pytest.mark.parametrize("name", SEEN)
def test_the_image_that_is_shown_is_the_one_that_the_model_sees(folders, name):
    """Each half of the image has a color of its own; so does each half of what is shown, in all tiles."""
    halves = Image.new("RGB", (80, 48), (200, 30, 60))
    halves.paste((20, 160, 90), (40, 0, 80, 48))
    file = io.BytesIO()
    halves.save(file, "PNG")
    seen = inspect_folder(folders(name)).load().input_image(file.getvalue())
    count, height, width = SEEN[name]
    assert (len(seen.tiles), seen.note, *seen.colors.shape[:2]) == (count, "", height, width)
    for left, top, right, bottom in [(0, 0, 64, 64)] if name == "smolvlm" else seen.tiles:
        for x, color in ((left + 2, (200, 30, 60)), (right - 3, (20, 160, 90))):
            assert abs(seen.colors[(top + bottom) // 2, x, :3].astype(int) - color).max() <= 3


def test_the_tiles_of_an_image_lie_where_they_were_cut(folders):
    """A point that is painted in one tile is seen there, and in the whole image beside them."""
    model = inspect_folder(folders("smolvlm")).load()
    plain, painted = Image.new("RGB", (64, 64), (90, 90, 90)), Image.new("RGB", (64, 64), (90, 90, 90))
    painted.paste((250, 0, 0), (40, 8, 56, 24))  # in the upper right quarter
    files = []
    for picture in (plain, painted):
        files.append(io.BytesIO())
        picture.save(files[-1], "PNG")
    before, after = (model.input_image(file.getvalue()) for file in files)
    rows, columns = (abs(after.colors.astype(int) - before.colors) > 60).any(-1).nonzero()
    assert {(x // 32, y // 32) for x, y in zip(columns, rows, strict=True) if x < 64} == {(1, 0)}
    assert min(x for x in columns if x >= 64) >= after.tiles[-1][0]
    places = [layer.inputs.grids for layer in model.layers(TEXT, image=files[1].getvalue()) if layer.id.stack == "text"]
    boxes = [after.place(grid, 0) for grid in places[0]]
    assert [box[:2] for box in boxes] == [tile[:2] for tile in after.tiles]


def test_without_an_image_the_text_is_read_alone(folders):
    model = inspect_folder(folders("qwen2-vl")).load()
    assert model.reads_text_alone
    assert model.layers(TEXT)[0].inputs.key_tokens == model.encode(TEXT).source.tokens
    assert "pixel_values" not in model.encode(TEXT).batch


def test_an_image_is_put_where_the_text_says(folders):
    model = inspect_folder(folders("llava")).load()
    tokens = model.encode(f"{TEXT} <image>", image=WIDE).source.tokens
    assert tokens[:2] == ("The", " quick")
    with pytest.raises(ValueError, match="Leave one “<image>” in the text"):
        model.encode("<image> <image>", image=WIDE)


def changed(folder, copy, **images):
    """A copy of a folder with other settings of its image processor."""
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    settings = json.loads((copy / "processor_config.json").read_text())
    settings |= {key: images.pop(key) for key in images.keys() & {"image_seq_len"}}
    settings["image_processor"] |= images
    (copy / "processor_config.json").write_text(json.dumps(settings))
    return inspect_folder(copy).load()


HOSTILE = {
    "tiles without end": ("smolvlm", {"size": {"longest_edge": 1 << 20}}),
    "a size without end": ("llava", {"size": {"shortest_edge": 1 << 20}, "do_center_crop": False}),
    "too many numbers": ("llava", {"size": {"shortest_edge": 2_000}, "do_center_crop": False}),
    "a text without end": ("smolvlm", {"image_seq_len": 1 << 40}),
    "too many patches": ("llava", {"size": {"shortest_edge": 1500}, "do_center_crop": False}),
    "no spread of colors": ("llava", {"image_std": [0, 0, 0]}),
    "a method": ("llava", {"preprocess": "x"}),
    "too many tokens": ("qwen2-vl", {"min_pixels": 1 << 22, "max_pixels": 1 << 23}),
    "other patches than the model's": ("qwen2-vl", {"patch_size": 4}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_settings_without_bounds_are_refused_with_a_sentence(folders, tmp_path, case):
    name, settings = HOSTILE[case]
    model = changed(folders(name), tmp_path, **settings)
    if model.reads_text_alone and not model.puts_images_into_texts:
        assert "so it reads the text alone" in model.notes[-1]
        return
    with pytest.raises(ValueError, match=r"^(The (image processor|tokenizer|image and)|\S+ fails on).+"):
        model.layers(TEXT, image=WIDE)
    with suppress(ValueError):  # more may be shown than can be read
        model.input_image(WIDE)
    assert model.layers(TEXT)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        *[("text", None), ("replaced", [0, 1]), ("tiles", [1.5, 2, 0]), ("tiles", "110")],
        ("arrays", {"pixel_values": ["float64", [1], "AAAAAAAAAAA="]}),
        ("arrays", {"pixel_values": ["float32", [2], "AAAAAA=="]}),
        ("arrays", {"pixel_values": ["float32", [-1, -1], "AAAAAA=="]}),
    ],
)
def test_a_reply_of_another_form_is_refused(folders, monkeypatch, part, value):
    model = inspect_folder(folders("llava")).load()
    read = model.tokenizer._read_line

    def changed_reply(most: int) -> bytes:
        reply = json.loads(read(most))
        reply["result"][part] = value
        return json.dumps(reply).encode() + b"\n"

    model.encode(TEXT, image=WIDE)
    monkeypatch.setattr(model.tokenizer, "_read_line", changed_reply)
    with pytest.raises(ValueError, match="something unexpected"):
        model.encode(TEXT, image=WIDE)


def test_without_settings_of_an_image_processor_the_text_is_read_alone(folders, tmp_path):
    for file in folders("llava").iterdir():
        if "processor" not in file.name:
            (tmp_path / file.name).write_bytes(file.read_bytes())
    model = inspect_folder(tmp_path).load()
    assert "without preprocessor_config.json" in model.notes[-1]
    with language("de"):
        assert "liest" in model.notes[-1]
    assert model.layers(TEXT)


def test_what_else_the_settings_of_a_processor_name_is_not_read(folders, tmp_path):
    for file in folders("llava").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    settings = json.loads((tmp_path / "processor_config.json").read_text())
    other = {"audio_tokenizer_class": "DacModel", "audio_tokenizer_name_or_path": "/nowhere"}
    settings |= {"audio_tokenizer": other, "auto_map": {"AutoProcessor": "code.Processor"}}
    (tmp_path / "processor_config.json").write_text(json.dumps(settings))
    model = inspect_folder(tmp_path).load()
    assert model.puts_images_into_texts
    assert model.encode(TEXT, image=png((9, 9))).batch["pixel_values"].shape == (1, 3, 32, 32)


def test_a_processor_that_is_not_here_is_named(folders, tmp_path):
    for file in folders("llava").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    settings = json.loads((tmp_path / "processor_config.json").read_text())
    (tmp_path / "processor_config.json").write_text(json.dumps(settings | {"processor_class": "PixtralProcessor"}))
    model = inspect_folder(tmp_path).load()
    assert model.modality == "text"
    assert "PixtralProcessor requires" in model.notes[-1]
    assert model.layers(TEXT)
    with pytest.raises(ValueError, match="sees no images"):
        model.layers(TEXT, image=WIDE)


@pytest.mark.parametrize(("rows", "columns"), [(-1, -3), (0, 3), (2, 9)])
def test_rows_and_columns_that_cannot_be_leave_the_tiles_beside_each_other(rows, columns):
    """They are of settings that are not trusted."""
    image = tiled_image(torch.rand(3, 3, 8, 8), rows, columns)
    assert "is not known" in image.note
    assert all(0 <= left < right and 0 <= top < bottom for left, top, right, bottom in image.tiles)
