"""Memory that a computation of many steps has freed."""

import ctypes
import gc
import os


def free_memory() -> None:
    """Frees what a step has left, and returns it to the system, where the C library can: passes of models are in cycles
    that Python alone finds late, and what is freed between arrays that stay is not used again for larger ones."""
    gc.collect()
    return_memory()


def return_memory() -> None:
    """Returns memory that is free to the system, where the C library can."""
    library = ctypes.CDLL(None) if os.name == "posix" else None
    if trim := getattr(library, "malloc_trim", None):
        trim(0)
