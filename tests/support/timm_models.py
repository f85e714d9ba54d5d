"""timm's vision transformers, where torchvision is not installed: its operators do not load with every build of torch.

timm imports names of torchvision that its vision transformers do not use. They stand in `Placeholders` while timm is
imported, and are gone afterwards, so that nothing else takes them for torchvision.
"""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class Placeholder(type):
    """A class whose attributes are classes of the same kind."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Placeholder(name, (), {})


class Placeholders(ModuleType):
    """A module in which every name is a placeholder."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Placeholder(name, (), {})


class Finder:
    """Finds placeholders for torchvision and its modules."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] == "torchvision" else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Placeholders(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def import_timm() -> Any:
    """Imports timm, with placeholders for torchvision if there is none."""
    if find_spec("torchvision"):
        import timm

        return timm
    finder: Any = Finder()
    sys.meta_path.append(finder)
    try:
        import timm
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
    return timm
