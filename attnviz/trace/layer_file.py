"""The safetensors file of one layer: its tensors, written whole and mapped when it is opened."""

import stat
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from attnviz.base.formatting import dimensions, enumeration, quoted

# The types in a trace, by their names in safetensors.
TYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16, "BOOL": torch.bool,
}  # fmt: skip
NAMES = {dtype: name for name, dtype in TYPES.items()}
NARROW = (torch.bfloat16, torch.float16)
SAMPLE = 4_096  # numbers that are tried before all are


def write_tensors(path: Path, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Writes tensors into a file, and returns them as they are written. Raises OSError if the disk is full."""
    whole: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        whole[name] = _narrowest(tensor.detach().cpu()).contiguous()
        if any(other is not whole[name] and _shares(other, whole[name]) for other in whole.values()):
            whole[name] = whole[name].clone()  # safetensors has no two tensors in one place
    try:
        safetensors.torch.save_file(whole, path)
    except safetensors.SafetensorError as error:
        raise OSError(str(error)) from error
    return whole


def map_tensors(path: Path, described: object) -> dict[str, Tensor]:
    """Returns the tensors of a file, mapped from it: nothing is read but the header, which safetensors checks against
    the size of the file. Raises ValueError if they are not as described, by a type and a shape for each name, if they
    are described."""
    check_regular(path)
    try:
        with safetensors.safe_open(path, "pt") as file:
            parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            actual = {name: {"type": one.get_dtype(), "shape": one.get_shape()} for name, one in parts.items()}
            if described is not None and actual != described:
                raise ValueError(_difference(path, actual, described))
            if unknown := sorted({str(one["type"]) for one in actual.values()} - TYPES.keys()):
                raise ValueError(
                    f"{path.name} holds numbers of the type {unknown[0]}, which are not read here. Write them as "
                    f"{enumeration([*TYPES], 'or')}."
                )
            return {name: file.get_tensor(name) for name in actual}
    except (safetensors.SafetensorError, OSError, RuntimeError, OverflowError) as error:
        raise ValueError(
            f"{path.name} cannot be opened: it is not a safetensors file, or was damaged or cut off. Write it again."
        ) from error


def describe_tensors(tensors: dict[str, Tensor]) -> dict[str, object]:
    """Returns the type and shape of tensors by name, as the manifest has them."""
    return {name: {"type": NAMES[one.dtype], "shape": list(one.shape)} for name, one in tensors.items()}


def check_regular(path: Path) -> None:
    """Raises ValueError for a file that is missing, a link, or no file, such as a pipe."""
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        raise ValueError(f"{path.name} is missing. A trace is a whole folder; copy all of it.") from error
    if stat.S_ISLNK(mode):
        raise ValueError(f"{path.name} is a link, which could lead anywhere, so it is not read. Put the file there.")
    if not stat.S_ISREG(mode):
        raise ValueError(f"{path.name} is not a file that can be read. Write it again.")


def _difference(path: Path, actual: dict[str, dict], described: object) -> str:
    """Returns what the manifest says of a file otherwise than the file itself."""
    described = described if isinstance(described, dict) else {}
    for name, one in actual.items():
        if described.get(name) != one:
            has = f"{one['type']} of {dimensions(one['shape'])}"
            return (
                f"{path.name} holds {quoted(name)} as {has}, but trace.json says otherwise, in tensors. Write both "
                "again, or leave tensors out."
            )
    return f"{path.name} does not hold all tensors that trace.json names, in tensors. Write both again."


def _narrowest(tensor: Tensor) -> Tensor:
    """Returns a tensor of float32 in 16 bits, if that changes no number."""
    if tensor.dtype != torch.float32:
        return tensor
    for dtype in NARROW:
        if _is_exact(tensor.flatten()[:SAMPLE], dtype) and all(_is_exact(part, dtype) for part in tensor):
            return tensor.to(dtype)
    return tensor


def _is_exact(tensor: Tensor, dtype: torch.dtype) -> bool:
    return torch.equal(tensor.to(dtype).float(), tensor)


def _shares(one: Tensor, other: Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
