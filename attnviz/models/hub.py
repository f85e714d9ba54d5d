"""Models of the Hugging Face hub: those on this computer, the size of others, and downloads."""

import errno
import glob
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx2
import huggingface_hub
from huggingface_hub import constants
from huggingface_hub.errors import (
    CacheNotFound,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    NotASafetensorsRepoError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    SafetensorsParsingError,
)
from huggingface_hub.utils import tqdm, validate_repo_id

from attnviz.base.formatting import byte_size, quoted
from attnviz.base.language import N_, _, value_error
from attnviz.base.settings import listed_models
from attnviz.models import MINILM as MINILM
from attnviz.models import SMOLLM2 as SMOLLM2
from attnviz.models import Progress as Progress
from attnviz.models import no_progress as no_progress
from attnviz.models.folder import INDEX, WeightSizes, weight_files
from attnviz.models.loading import check_size
from attnviz.models.number_types import computing_type

ID_FORMAT = N_(
    "Write it as on the hub, owner/model, such as {minilm}; or the path of a folder or of a GGUF file, from its root."
)
WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors")
FILES = (
    *WEIGHTS,
    *(INDEX, "config.json", "generation_config.json", "adapter_config.json"),
    *("tokenizer*", "vocab.*", "merges.txt", "special_tokens_map.json", "added_tokens.json", "*.model", "tekken.json"),
    *("preprocessor_config.json", "processor_config.json", "modules.json", "1_Pooling/config.json"),
)
OTHER_FORMATS = ("onnx/*", "openvino/*", "original/*")  # folders that hold the same once more, in other formats

ADDRESSES = ("huggingface.co", "www.huggingface.co", "hf.co")
NO_MODELS = ("api", "blog", "collections", "datasets", "docs", "models", "organizations", "papers", "spaces", "tasks")
REVISIONS = ("blame", "blob", "commit", "commits", "raw", "resolve", "tree")  # in an address, before a revision's name


class NotDownloaded(ValueError):
    """A model of the hub that has to be downloaded first."""


@dataclass(frozen=True)
class CachedModel:
    """A model of the hub that is on this computer."""

    name: str
    size: int  # bytes on disk
    folder: Path = field(repr=False)


@dataclass(frozen=True)
class RemoteModel:
    """A model of the hub, and the size of its download."""

    name: str
    parameters: int
    size: int  # bytes of all its files that are read
    left: int  # bytes of those that are not here yet


@dataclass(frozen=True)
class Hub:
    """The hub at an address, and the folder of its cache; by default those of huggingface_hub."""

    address: str | None = None
    cache: Path | None = None

    def cached_models(self) -> list[CachedModel]:
        """Returns the complete models with safetensors on this computer, by name, without network access."""
        return [*_cached_models(self, self._cache_stamp())]

    def folder(self, name: str) -> Path | None:
        """Returns the folder of a model if it is on this computer, without network access."""
        check_name(name)
        stamp = self._cache_stamp(f"models--{name.replace('/', '--')}")
        return _folder(self, name, stamp) if stamp else None

    def find(self, name: str) -> RemoteModel:
        """Returns the size of a model of the hub, without downloading it.

        Raises ValueError if there is no such model, the hub cannot be reached, it has no safetensors, or it does not
        fit into memory or on the disk.
        """
        check_allowed(name)
        with _readable_errors(name, self.cached_models):
            files = self._snapshot(name, dry_run=True)
            if not any(Path(file.filename).match(pattern) for file in files for pattern in WEIGHTS):
                raise value_error(
                    "{name} has no weights as safetensors, and others, which can run code, are not "
                    "read. Choose another model, or another copy of this one.",
                    name=quoted(name),
                )
            if "config.json" not in {file.filename for file in files}:
                raise value_error(
                    "{name} has no config.json, so it is not known what kind of model it is. Choose another model.",
                    name=quoted(name),
                )
            api = huggingface_hub.HfApi(endpoint=self.address)
            try:
                counts = api.get_safetensors_metadata(name).parameter_count
            except (NotASafetensorsRepoError, SafetensorsParsingError) as error:
                raise value_error(
                    "The weights of {name} are damaged on the hub. Choose another model.", name=quoted(name)
                ) from error
        weights = WeightSizes({str(kind): count for kind, count in counts.items()})
        parameters, dtype = sum(weights.parameters.values()), computing_type(weights.common_type)
        check_size(name, parameters, weights.memory(dtype.itemsize))
        size, left = (sum(f.file_size or 0 for f in files if every or f.will_download) for every in (True, False))
        self._check_disk(name, left)
        return RemoteModel(name, parameters, size, left)

    def fetch(self, remote: RemoteModel, progress: Progress = no_progress) -> Path:
        """Downloads a model; calls `progress` with the bytes done and in total.

        Files that are on this computer are not downloaded again, so interrupted downloads continue. Raises ValueError
        if the download fails.
        """
        already = remote.size - remote.left

        class Bar(tqdm):
            """Counts downloaded bytes, and draws nothing."""

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                self.counts = kwargs.get("name") == "huggingface_hub.snapshot_download"
                super().__init__(*args, **{**kwargs, "disable": True})
                self.done = 0

            def update(self, n: int | float | None = 1) -> bool | None:
                if self.counts:
                    self.done += int(n or 0)
                    progress(min(already + self.done, remote.size), remote.size)
                return super().update(n)

        with _readable_errors(remote.name, self.cached_models):
            folder = Path(self._snapshot(remote.name, tqdm_class=Bar))
        if not _is_complete(folder):
            raise value_error(
                "{name} lacks some of its weights on the hub, or its index of them is damaged. Choose another model.",
                name=quoted(remote.name),
            )
        progress(remote.size, remote.size)
        return folder

    def _snapshot(self, name: str, **more: Any) -> Any:
        return huggingface_hub.snapshot_download(
            name,
            endpoint=self.address,
            cache_dir=self.cache,
            allow_patterns=list(FILES),
            ignore_patterns=list(OTHER_FORMATS),
            **more,
        )

    def _cache_stamp(self, models: str = "models--*") -> tuple[tuple[str, int], ...]:
        """Returns what is another value when a file of a model comes or goes: pages ask many times in a run."""
        cache = glob.escape(str(self.cache or constants.HF_HUB_CACHE))
        places = (place for part in ("snapshots", "refs") for place in glob.iglob(f"{cache}/{models}/{part}/*"))
        return tuple((place, os.stat(place).st_mtime_ns) for place in places)

    def _check_disk(self, name: str, left: int) -> None:
        place = Path(self.cache or constants.HF_HUB_CACHE).absolute()
        while not place.exists():
            place = place.parent
        free = shutil.disk_usage(place).free
        if left > free:
            raise value_error(
                "{left} of {name} would have to be stored, and the disk has {free} left. Free "
                "some space, or choose a smaller model.",
                left=byte_size(left),
                name=quoted(name),
                free=byte_size(free),
            )


HUB = Hub()


@lru_cache(maxsize=64)
def _folder(hub: Hub, name: str, stamp: tuple[tuple[str, int], ...]) -> Path | None:
    """Returns the folder of a model whose files in the cache of a hub have this stamp; None if it lacks some."""
    try:
        folder = Path(hub._snapshot(name, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    return folder if _is_complete(folder) else None


@lru_cache(maxsize=4)
def _cached_models(hub: Hub, stamp: tuple[tuple[str, int], ...]) -> tuple[CachedModel, ...]:
    """Returns the complete models in the cache of a hub, which has this stamp."""
    try:
        repos = huggingface_hub.scan_cache_dir(hub.cache).repos
    except CacheNotFound:
        return ()
    models = [
        CachedModel(repo.repo_id, repo.size_on_disk, folder)
        for repo in repos
        if repo.repo_type == "model" and (folder := hub.folder(repo.repo_id))
    ]
    return tuple(sorted(models, key=lambda model: model.name.lower()))


def _is_complete(folder: Path) -> bool:
    """Returns whether a folder has the model's config and all files of its weights."""
    try:
        weight_files(folder, folder.name)
    except ValueError:
        return False
    return (folder / "config.json").exists()


def model_id(text: str) -> str:
    """Returns the id of a model from its address on the hub; any other text is returned unchanged.

    No network access. Raises ValueError for an address of anything else.
    """
    text = text.strip()
    scheme = re.match(r"(\w[\w+.-]*)://", text)
    host, _slash, path = text[scheme.end() if scheme else 0 :].partition("/")
    if host.lower() not in ADDRESSES and not scheme:
        return text
    if host.lower() not in ADDRESSES or (scheme and scheme[1].lower() not in ("http", "https")):
        raise value_error(
            "{text} is an address, but not of the Hugging Face hub. {ID_FORMAT}",
            text=quoted(text),
            ID_FORMAT=_(ID_FORMAT, minilm=MINILM),
        )
    segments = [segment for segment in re.split("[?#]", path)[0].split("/") if segment]
    if not segments or segments[0].lower() in (*NO_MODELS, *ADDRESSES):
        raise value_error(
            "{text} is not the address of a model. {ID_FORMAT}",
            text=quoted(text),
            ID_FORMAT=_(ID_FORMAT, minilm=MINILM),
        )
    size = 1 if len(segments) == 1 or segments[1] in REVISIONS else 2  # the ids of the oldest models have no owner
    revision = segments[size + 1] if len(segments) > size + 1 and segments[size] in REVISIONS else "main"
    if revision != "main":
        raise value_error(
            "{text} is the revision {revision} of a model; only main is read here.",
            text=quoted(text),
            revision=quoted(revision),
        )
    name = "/".join(segments[:size])
    check_name(name)
    return name


def check_name(name: str) -> None:
    """Raises ValueError for a text that cannot be the id of a model, by the hub's own rules."""
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise value_error(
            "{name} is not the name of a model. {ID_FORMAT}", name=quoted(name), ID_FORMAT=_(ID_FORMAT, minilm=MINILM)
        ) from error


def allowed_models() -> tuple[str, ...] | None:
    """Returns the models that the owner of this instance lists in ATTNVIZ_MODELS; None if all are allowed."""
    names = listed_models()
    for name in names or ():
        try:
            check_name(name)
        except ValueError as error:
            raise value_error(
                "ATTNVIZ_MODELS must be ids of models with commas between them, or * for any model "
                "and any folder; {name} is not an id.",
                name=quoted(name),
            ) from error
    return names


def check_allowed(name: str) -> None:
    """Raises ValueError for models that a hosted instance does not list, and for texts that cannot be ids."""
    listed = allowed_models()
    if listed is not None and name not in listed:
        choice = ", ".join(map(quoted, dict.fromkeys((MINILM, *listed))))
        raise value_error(
            "This instance shows only the models that its owner lists, and {name} is not one of them. "
            "Choose one of {choice}.",
            name=quoted(name),
            choice=choice,
        )
    check_name(name)


@contextmanager
def _readable_errors(name: str, cached: Callable[[], list[CachedModel]]) -> Iterator[None]:
    """Converts errors of the hub to ValueErrors whose messages explain what to do."""
    try:
        yield
    except (HfHubHTTPError, httpx2.HTTPError, OSError, json.JSONDecodeError, AssertionError) as error:
        raise ValueError(_error_sentence(name, error, cached)) from error


def _error_sentence(name: str, error: BaseException, cached: Callable[[], list[CachedModel]]) -> str:
    causes = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)

    def is_a(*types: type) -> bool:
        return any(isinstance(cause, types) for cause in causes)

    if is_a(GatedRepoError):
        return _(
            "{name} is gated: its owner asks you to accept terms first. Do so on its page at the "
            "hub, log in on this computer with “hf auth login”, and try again.",
            name=quoted(name),
        )
    if is_a(RepositoryNotFoundError) or any(_status(cause) in (401, 403) for cause in causes):
        return _(
            "The hub has no public model {name}. Check the name for a typing error; if the model is "
            "private, log in on this computer with “hf auth login”.",
            name=quoted(name),
        )
    if any(isinstance(cause, OSError) and cause.errno == errno.ENOSPC for cause in causes):
        return _(
            "The disk is full, so {name} could not be stored. Free some space and try again; what is here is kept.",
            name=quoted(name),
        )
    statuses = [status for cause in causes if (status := _status(cause))]
    if statuses:
        return _(
            "The hub answered with the error {status} when it was asked for {name}. Try again later.",
            status=statuses[0],
            name=quoted(name),
        )
    models = ", ".join(quoted(model.name) for model in cached()[:8])
    others = (
        _("Without it, these can be read: {models}.", models=models)
        if models
        else _("No model of the hub is on this computer yet.")
    )
    if is_a(OfflineModeIsEnabled):
        return _(
            "{name} is not on this computer, and HF_HUB_OFFLINE keeps it off the network. {others}",
            name=quoted(name),
            others=others,
        )
    return _(
        "The hub cannot be reached to ask for {name}. Check the network and try again. {others}",
        name=quoted(name),
        others=others,
    )


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    return getattr(response, "status_code", None)
