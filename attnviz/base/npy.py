"""A safe reader of untrusted .npy files: sizes are checked before memory is allocated, and no pickle is loaded."""

import io
import math
import struct
import tokenize
from collections.abc import Callable

import numpy as np

from attnviz.base.formatting import quoted
from attnviz.base.language import value_error

HEADER_READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# Exceptions of numpy about a damaged header, found by feeding it millions of them.
DAMAGED = (
    *(ValueError, TypeError, LookupError, AssertionError, ArithmeticError, SyntaxError, MemoryError),
    *(RuntimeError, OSError, EOFError, struct.error, tokenize.TokenError),
)


def read_npy(
    data: bytes, check: Callable[[np.dtype, tuple[int, ...]], None], name: str = "this .npy file"
) -> np.ndarray:
    """Returns the array in the bytes of a .npy file, as a view of them.

    `check` is called with the type and shape in the header before any number is read, and raises ValueError to refuse
    them. `name` is the name of the array in error messages. Raises ValueError if the header is damaged, if there are
    fewer numbers than it declares, and if the array holds Python objects, which would need a pickle.

    Example:
        >>> file = io.BytesIO()
        >>> np.save(file, np.eye(2))
        >>> read_npy(file.getvalue(), check=lambda dtype, shape: None)
        array([[1., 0.],
               [0., 1.]])
    """
    file = io.BytesIO(data)
    try:
        shape, fortran_order, dtype = HEADER_READERS[np.lib.format.read_magic(file)](file)
        if not all(type(size) is int for size in shape):  # numpy reads True as well
            raise TypeError
    except DAMAGED as error:
        raise value_error(
            "The header of {name} cannot be read: it was damaged or cut off. Save it again with numpy.save.",
            name=name,
        ) from error
    check(dtype, shape)
    count, start = math.prod(shape), file.tell()
    if any(n < 0 for n in shape) or not dtype.itemsize or count * dtype.itemsize > len(data) - start:
        raise value_error(
            "{upper}{name} says that its shape is {shape}, but fewer numbers follow. It was "
            "damaged or cut off. Save it again with numpy.save.",
            upper=name[0].upper(),
            name=name[1:],
            shape=quoted(shape),
        )
    if dtype.hasobject:
        raise value_error(
            "{upper}{name} holds Python objects, which are not opened. Save numbers.",
            upper=name[0].upper(),
            name=name[1:],
        )
    if not count:
        return np.empty(shape, dtype)
    return np.frombuffer(data, dtype, count, start).reshape(shape, order="F" if fortran_order else "C")
