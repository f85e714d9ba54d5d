"""Files and folders of an atlas that were changed, by accident or on purpose: each is refused in a sentence, or is
still an atlas that can be shown; and none takes memory."""

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor

import attnviz
from attnviz.analysis.atlas import FILE, Atlas, atlas
from attnviz.models.model import LoadedModel
from tests.support.tiny_models import TEXT, byte_level, gpt2

TEXTS = (TEXT, "the lazy dog", "a naïve fox jumps", "the fox")
EACH = 20  # changes of each kind
MOST_BYTES = 100 << 20  # that reading may take
FLOATS = (
    "means",
    "deviations",
    "likeness",
    "looked_at.weight",
    "examples.weight.weight",
    "examples.written.order",
    "mlps.sums",
    "mlps.examples.written.weight",
)
SUMS = (
    "deviations",
    "counts",
    "neighbors",
    "looked_at.weight",
    "looked_from.occurrences",
    "examples.random.weight",
    "mlps.counts",
    "mlps.squares",
    "mlps.values",
)


class Saved:
    """A saved atlas that is changed."""

    def __init__(self, file: Path) -> None:
        self.bytes = file.read_bytes()
        self.arrays = dict(sorted(safetensors.torch.load(self.bytes).items()))  # in the same order each time
        self.header = json.loads(safetensors_header(self.bytes)["__metadata__"]["attnviz"])

    @property
    def parts(self) -> Any:
        return self.header["result"]["parts"]

    def array(self, name: str) -> Tensor:
        return self.arrays[f"result.{name}"]

    def written(self) -> bytes:
        arrays = {name: array.contiguous() for name, array in self.arrays.items()}
        return safetensors.torch.save(arrays, {"attnviz": json.dumps(self.header)})


def safetensors_header(content: bytes) -> Any:
    return json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])


def with_header(content: bytes, header: Any) -> bytes:
    own = json.dumps(header).encode()
    return struct.pack("<Q", len(own)) + own + content[8 + struct.unpack("<Q", content[:8])[0] :]


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    torch.manual_seed(0)
    return LoadedModel(gpt2().eval(), byte_level(), "GPT-2", outputs="next token")


@pytest.fixture(scope="module")
def file(model: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("atlas")
    atlas(model, TEXTS, folder)
    return folder / FILE


Chance = np.random.Generator


def one_of(chance: Chance, values: Any) -> Any:
    every = [*values]
    return every[int(chance.integers(len(every)))]


def set_number(array: Tensor, chance: Chance, value: float) -> None:
    """Sets a finite number of an array."""
    places = array.double().isfinite().flatten().nonzero().flatten().tolist()
    array.view(-1)[one_of(chance, places)] = value


def cut_off(saved: Saved, chance: Chance) -> bytes:
    return saved.bytes[: int(chance.integers(len(saved.bytes)))]


def longer(saved: Saved, chance: Chance) -> bytes:
    return saved.bytes + chance.bytes(int(chance.integers(1, 1000)))


def length_of_header(saved: Saved, chance: Chance) -> bytes:
    return struct.pack("<Q", int(chance.integers(1 << int(chance.integers(1, 63))))) + saved.bytes[8:]


def huge_sizes(saved: Saved, chance: Chance) -> bytes:
    header = safetensors_header(saved.bytes)
    entry = header[one_of(chance, saved.arrays)]
    entry["shape"] = [int(chance.integers(1 << 40, 1 << 62)), *entry["shape"][1:]]
    if chance.integers(2):
        entry["data_offsets"][1] = 1 << 50
    return with_header(saved.bytes, header)


def other_offsets(saved: Saved, chance: Chance) -> bytes:
    header = safetensors_header(saved.bytes)
    offsets = header[one_of(chance, saved.arrays)]["data_offsets"]
    offsets[int(chance.integers(2))] += one_of(chance, (-4, 4, -(1 << 40), 1 << 63))
    return with_header(saved.bytes, header)


def missing_array(saved: Saved, chance: Chance) -> bytes:
    del saved.arrays[one_of(chance, saved.arrays)]
    return saved.written()


def renamed_array(saved: Saved, chance: Chance) -> bytes:
    name = one_of(chance, saved.arrays)
    saved.arrays[name + "s"] = saved.arrays.pop(name)
    return saved.written()


def shorter_array(saved: Saved, chance: Chance) -> bytes:
    name = one_of(chance, (name for name in saved.arrays if ".values" not in name))
    axis = int(
        chance.integers(1 if name.startswith("result.looked") or "examples" in name else saved.arrays[name].ndim)
    )
    if name.startswith("result.raised") and axis == 1:  # as of an atlas with fewer examples
        axis = 0
    saved.arrays[name] = saved.arrays[name].narrow(axis, 0, saved.arrays[name].shape[axis] - 1)
    return saved.written()


def other_axes(saved: Saved, chance: Chance) -> bytes:
    name = one_of(chance, saved.arrays)
    array = saved.arrays[name]
    others = array[None], array.flatten(), torch.ones(())
    saved.arrays[name] = one_of(chance, [other for other in others if other.shape != array.shape])
    return saved.written()


def other_type(saved: Saved, chance: Chance) -> bytes:
    name = one_of(chance, saved.arrays)
    is_float = saved.arrays[name].is_floating_point()
    kind = one_of(chance, (torch.complex64, torch.bool, torch.int32 if is_float else torch.float32))
    saved.arrays[name] = saved.arrays[name].to(kind)
    return saved.written()


def no_number(saved: Saved, chance: Chance) -> bytes:
    set_number(saved.array(one_of(chance, FLOATS)), chance, one_of(chance, (torch.nan, torch.inf)))
    return saved.written()


def negative(saved: Saved, chance: Chance) -> bytes:
    set_number(saved.array(one_of(chance, SUMS)), chance, -2)
    return saved.written()


def out_of_range(saved: Saved, chance: Chance) -> bytes:
    match int(chance.integers(6)):
        case 0:
            set_number(saved.array("neighbors"), chance, 10_000)
        case 1:
            set_number(saved.array("counts"), chance, len(TEXTS) + 1)
        case 2:
            saved.array(f"examples.{one_of(chance, ('weight', 'random'))}.places")[..., 0] = len(TEXTS)
        case 3:
            set_number(saved.array(one_of(chance, ("raised", "looked_at.ids"))), chance, -2)
        case 4:
            set_number(saved.array("likeness"), chance, 3)
        case 5:
            saved.array("examples.weight.places")[:, 0, 1 + int(chance.integers(2))] = 1_000
    return saved.written()


def unsorted(saved: Saved, chance: Chance) -> bytes:
    saved.array("examples.weight.order")[int(chance.integers(4)), -1] = 1e6
    return saved.written()


def missing_part(saved: Saved, chance: Chance) -> bytes:
    del saved.parts[one_of(chance, saved.parts)]
    return saved.written()


def unknown_part(saved: Saved, chance: Chance) -> bytes:
    saved.parts[one_of(chance, saved.parts) + one_of(chance, ("s", "\0", "é"))] = None
    return saved.written()


def other_part(saved: Saved, chance: Chance) -> bytes:
    deep: Any = 1
    for _ in range(20):
        deep = [deep]
    values = (None, True, 1e308, [], {}, [1], deep, {"array": "nowhere", "of": "torch"}, {"array": [], "of": "torch"},
              {"map": 1}, {"class": "LayerId", "parts": {}}, {"class": "Tensor", "parts": {}})  # fmt: skip
    saved.parts[one_of(chance, saved.parts)] = one_of(chance, values)
    return saved.written()


def other_class(saved: Saved, chance: Chance) -> bytes:
    name = one_of(chance, ("Examples", "PerText", "Path", "os.system", "", "Attribution", "AtlasPart"))
    if chance.integers(2):
        saved.header["result"]["class"] = name
    else:
        saved.parts["looked_at"]["class"] = name
    return saved.written()


def other_texts(saved: Saved, chance: Chance) -> bytes:
    match int(chance.integers(6)):
        case 0:
            saved.parts["texts"] = saved.parts["texts"][:1]
        case 1:
            saved.parts["texts"][0] = one_of(chance, (1, None, "\ud800", ["x"]))
        case 2:
            saved.parts[one_of(chance, ("heads", "layers"))] = one_of(chance, ([], saved.parts["heads"][1:]))
        case 3:
            saved.parts["heads"][0] = one_of(chance, (-1, 1, 1.5, "0", 10**30))
        case 4:
            saved.parts["metrics"][0] = one_of(chance, (saved.parts["metrics"][1], 3, "\udfff"))
        case 5:
            saved.parts["layers"][0] = one_of(chance, (0, "0", None, {"map": {}}, saved.parts["layers"][-1]))
    return saved.written()


def other_header(saved: Saved, chance: Chance) -> bytes:
    name = one_of(chance, ("format", "version", "model", "tokens", "ids"))
    if chance.integers(2):
        del saved.header[name]
    else:
        saved.header[name] = one_of(chance, ({"array": 1}, "1" if name == "version" else 1.5, None, [[]], -(10**21)))
    return saved.written()


def other_entry(saved: Saved, chance: Chance) -> bytes:
    header = safetensors_header(saved.bytes)
    entry = header["__metadata__"]["attnviz"]
    texts = ("", "null", "[]", "1" * 100_000, "[" * 100_000, '{"format": "attnviz result"}', entry[:-5], entry + "}",
             entry.replace('"version": 1', '"version": 99'), entry.replace('"version": 1', '"version": 0'))  # fmt: skip
    header["__metadata__"] = one_of(chance, [*({"attnviz": text} for text in texts), {}, {"attnviz": 1}, []])
    return with_header(saved.bytes, header)


def bytes_of_header(saved: Saved, chance: Chance) -> bytes:
    """Bytes that are no UTF-8."""
    size, content = struct.unpack("<Q", saved.bytes[:8])[0], bytearray(saved.bytes)
    for place in chance.integers(8, 8 + size, 3):
        content[place] = 0xFF
    return bytes(content)


REFUSED: tuple[Callable[[Saved, Chance], bytes], ...] = (
    *(cut_off, longer, length_of_header, huge_sizes, other_offsets, missing_array, renamed_array, shorter_array),
    *(other_axes, other_type, no_number, negative, out_of_range, unsorted, missing_part, unknown_part, other_part),
    *(other_class, other_texts, other_header, other_entry, bytes_of_header),
)


@pytest.mark.parametrize("change", REFUSED, ids=lambda change: change.__name__)
def test_a_file_that_was_changed_is_refused(
    change: Callable[[Saved, Chance], bytes], file: Path, tmp_path: Path
) -> None:
    chance, path = np.random.default_rng(0), tmp_path / FILE
    for _number in range(EACH):
        path.write_bytes(change(Saved(file), chance))
        with pytest.raises(ValueError, match=r"cannot be read|holds no result|later version|header of .* bytes"):
            attnviz.load(path)


def test_what_is_read_of_changed_bytes_can_be_shown(file: Path, tmp_path: Path) -> None:
    chance, path, own, read = np.random.default_rng(1), tmp_path / FILE, file.read_bytes(), 0
    for _number in range(3 * EACH):
        content = bytearray(own)
        for place in chance.integers(0, len(own), int(chance.integers(1, 9))):
            content[place] = int(chance.integers(256))
        path.write_bytes(content)
        try:
            made = attnviz.load(path).result
        except ValueError as error:
            assert "cannot be read" in str(error)  # noqa: PT017 - others are read
            continue
        read += 1
        assert isinstance(made, Atlas)
        assert len(made.to_frame()) == len(made.heads)
        assert made.head(made.layers[0].name if hasattr(made.layers[0], "name") else 0, 0) == 0
        assert len(made.texts) > int(made.examples["weight"].places[..., 0].max())
        assert len(made.heads) > int(made.neighbors.max()) >= int(made.neighbors.min()) >= 0
        assert bool(((made.counts > 0) == made.means.isfinite()).all())
    assert read


def most_memory(forget: bool = False) -> int:
    """The most bytes that this process has had, or has from now on."""
    if forget:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux says what memory was taken")
@pytest.mark.parametrize("name", ["means", "values", "neighbors", "looked_at.weight", "examples.weight.places"])
def test_a_huge_file_takes_no_memory(name: str, file: Path, tmp_path: Path) -> None:
    header, path = safetensors_header(file.read_bytes()), tmp_path / FILE
    entry = header[f"result.{name}"]
    start = max(one["data_offsets"][1] for key, one in header.items() if key != "__metadata__")
    first, end = entry["data_offsets"]
    width = (end - first) // entry["shape"][0]
    entry["shape"][0] = (8 << 30) // width
    # It comes last, so that all others keep their bytes; those that it had are an array that nothing names.
    header["unused"] = {"dtype": "U8", "shape": [end - first], "data_offsets": [first, end]}
    entry["data_offsets"] = [start, start + entry["shape"][0] * width]
    path.write_bytes(with_header(file.read_bytes(), header))
    os.truncate(path, path.stat().st_size + entry["shape"][0] * width)  # zeros that take no place on the disk
    before = most_memory(forget=True)
    with pytest.raises(ValueError, match="cannot be read"):
        attnviz.load(path)
    assert most_memory() - before < MOST_BYTES


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for name, target in {"broken": "nowhere", "loop": "loop", "device": "/dev/zero"}.items():
        (tmp_path / name).symlink_to(target)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    for path in tmp_path.iterdir():
        with pytest.raises(ValueError, match=r"is not a file|cannot be opened|cannot be read"):
            attnviz.load(path)


def test_a_link_is_read_and_a_name_that_is_no_text_refused(file: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(file)
    assert attnviz.load(tmp_path / "link").result.texts == TEXTS
    name = os.fsdecode(b"atlas \xff.safetensors")
    try:
        shutil.copy(file, tmp_path / name)
    except OSError:
        pytest.skip("This system has no such names.")
    with pytest.raises(ValueError, match="cannot be read"):  # safetensors opens none
        attnviz.load(tmp_path / name)


@pytest.fixture
def begun(model: LoadedModel, tmp_path: Path) -> tuple[Path, Path]:
    """A folder of an atlas that was ended after its first two texts, and that of its parts."""

    def end(_done: int, _count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atlas(model, TEXTS, tmp_path / "atlas", part_size=2, on_progress=end)
    [parts] = (tmp_path / "atlas").iterdir()
    return tmp_path / "atlas", parts


def of_other_texts(parts: Path, model: LoadedModel) -> None:
    """The part of another run, of as many texts."""
    other = parts.parent.with_name("other")
    with pytest.raises(ZeroDivisionError):
        atlas(model, TEXTS[::-1], other, part_size=2, on_progress=lambda done, count: 1 // 0)
    next(other.glob("*/0.safetensors")).replace(parts / "0.safetensors")


def of_other_numbers(parts: Path, _model: LoadedModel) -> None:
    shutil.copy(parts / "0.safetensors", parts / "2.safetensors")


def cut_part(parts: Path, _model: LoadedModel) -> None:
    os.truncate(parts / "0.safetensors", 2000)


def folder_of_part(parts: Path, _model: LoadedModel) -> None:
    (parts / "2.safetensors").mkdir()


def whole_atlas(parts: Path, model: LoadedModel) -> None:
    atlas(model, TEXTS[:2], parts / "whole")
    (parts / "whole" / FILE).replace(parts / "0.safetensors")


def no_numbers_of_part(parts: Path, _model: LoadedModel) -> None:
    saved = Saved(parts / "0.safetensors")
    saved.array("sums")[0, 0] = torch.nan
    (parts / "0.safetensors").write_bytes(saved.written())


def fewer_metrics(parts: Path, _model: LoadedModel) -> None:
    saved = Saved(parts / "0.safetensors")
    for name, axis in {"values": 1, "counts": 0, "sums": 0, "squares": 0}.items():
        saved.arrays[f"result.{name}"] = saved.array(name).narrow(axis, 0, 3)
    (parts / "0.safetensors").write_bytes(saved.written())


def wider_values(parts: Path, _model: LoadedModel) -> None:
    saved = Saved(parts / "0.safetensors")
    saved.arrays["result.examples.written.values"] = saved.array("examples.written.values").repeat(1, 1, 2)
    (parts / "0.safetensors").write_bytes(saved.written())


def other_type_of_part(parts: Path, _model: LoadedModel) -> None:
    saved = Saved(parts / "0.safetensors")
    saved.arrays["result.looked_at"] = saved.array("looked_at").double()
    (parts / "0.safetensors").write_bytes(saved.written())


PARTS = (of_other_texts, of_other_numbers, cut_part, folder_of_part, whole_atlas, no_numbers_of_part, fewer_metrics,
         wider_values, other_type_of_part)  # fmt: skip


@pytest.mark.parametrize("change", PARTS, ids=lambda change: change.__name__)
def test_a_part_that_was_changed_is_refused(
    change: Callable[[Path, LoadedModel], None], begun: tuple[Path, Path], model: LoadedModel
) -> None:
    folder, parts = begun
    change(parts, model)
    with pytest.raises(ValueError, match=r"cannot be read|is no part|is not a file|different heads"):
        atlas(model, TEXTS, folder, part_size=2)


def test_what_else_is_in_the_folder_stays(begun: tuple[Path, Path], model: LoadedModel, tmp_path: Path) -> None:
    folder, parts = begun
    elsewhere = parts.rename(tmp_path / "elsewhere")
    parts.symlink_to(elsewhere)
    (elsewhere / "thesis.txt").write_text("mine")
    (elsewhere / "2.safetensors").symlink_to(tmp_path / "nowhere")
    (folder / f"{FILE}.draft").symlink_to(elsewhere / "thesis.txt")
    made = atlas(model, TEXTS, folder, part_size=2)
    assert attnviz.load(folder / FILE).result.texts == made.texts
    assert [path.read_text() for path in elsewhere.iterdir()] == ["mine"]


@pytest.mark.parametrize("name", [FILE, f"{FILE}.draft"])
def test_a_folder_in_place_of_the_file_is_said(name: str, model: LoadedModel, tmp_path: Path) -> None:
    (tmp_path / name / "inside").mkdir(parents=True)
    with pytest.raises(ValueError, match="cannot be written"):
        atlas(model, TEXTS, tmp_path, part_size=2)
