"""Settings from environment variables, read on each call."""

import os
import re
import sys
from enum import StrEnum
from ipaddress import ip_address, ip_network
from pathlib import Path

from attnviz.base.formatting import quoted

MB = 1 << 20
NAMES = (
    *("ATTNVIZ_HOSTED", "ATTNVIZ_TLS", "ATTNVIZ_PROXY", "ATTNVIZ_MODELS", "ATTNVIZ_MODELS_KEPT", "ATTNVIZ_MODEL_MB"),
    *("ATTNVIZ_UPLOAD_MB", "ATTNVIZ_UNPACKED_MB", "ATTNVIZ_UPLOADS_MB", "ATTNVIZ_EMBED"),
    *("ATTNVIZ_LOG", "ATTNVIZ_METRICS_PORT", "ATTNVIZ_METRICS_ADDRESS", "ATTNVIZ_RAY", "ATTNVIZ_TRACES"),
    *("ATTNVIZ_CLASS_STORE", "ATTNVIZ_CLASS_HOURS", "ATTNVIZ_CACHE"),
    *("ATTNVIZ_WRITE_TOKENS", "ATTNVIZ_WRITE_SECONDS", "ATTNVIZ_WRITERS"),
)


class LogStyle(StrEnum):
    """How the log is written: for programs, for people, or as Streamlit writes it, with the texts of errors."""

    JSON = "json"
    PLAIN = "plain"
    UNCHANGED = "unchanged"


def is_hosted() -> bool:
    """Returns whether the app is for people its owner does not know: ATTNVIZ_HOSTED is 1."""
    return _switch("ATTNVIZ_HOSTED")


def has_tls_proxy() -> bool:
    """Returns whether a proxy in front of the app speaks HTTPS: ATTNVIZ_TLS is 1."""
    return _switch("ATTNVIZ_TLS")


def proxies() -> tuple[str, ...]:
    """Returns the proxies that are believed when they name the address of a visitor (X-Forwarded-For): ATTNVIZ_PROXY,
    addresses or networks such as 10.0.0.0/24 separated by commas; none by default."""
    named = tuple(text.strip() for text in os.environ.get("ATTNVIZ_PROXY", "").split(",") if text.strip())
    for text in named:
        try:
            ip_network(text)
        except ValueError:
            raise ValueError(
                "ATTNVIZ_PROXY must list addresses or networks such as 127.0.0.1 or 10.0.0.0/24 with commas between "
                f"them; {quoted(text)} is not one."
            ) from None
    return named


def upload_bytes() -> int:
    """Returns the largest size of an uploaded file in bytes: ATTNVIZ_UPLOAD_MB, by default 64 MB, and 8 if hosted."""
    return _positive("ATTNVIZ_UPLOAD_MB", 8 if is_hosted() else 64, "megabytes") * MB


def unpacked_bytes() -> int:
    """Returns the largest size of an uploaded file in memory in bytes: ATTNVIZ_UNPACKED_MB, 256 MB by default."""
    return _positive("ATTNVIZ_UNPACKED_MB", 256, "megabytes") * MB


def all_uploads_bytes() -> int:
    """Returns the memory for the uploads of all visitors in bytes: ATTNVIZ_UPLOADS_MB, 1,024 MB by default."""
    return _positive("ATTNVIZ_UPLOADS_MB", 1_024, "megabytes") * MB


def model_bytes() -> int:
    """Returns the memory for all models together in bytes: ATTNVIZ_MODEL_MB, 4,096 MB by default."""
    return _positive("ATTNVIZ_MODEL_MB", 4_096, "megabytes") * MB


def kept_models() -> int:
    """Returns the number of models that stay in memory: ATTNVIZ_MODELS_KEPT, 3 by default."""
    return _positive("ATTNVIZ_MODELS_KEPT", 3, "models")


def listed_models() -> tuple[str, ...] | None:
    """Returns the models that may be named: ATTNVIZ_MODELS, ids separated by commas; None, any model and any folder,
    for * and by default, unless hosted."""
    text = os.environ.get("ATTNVIZ_MODELS", "" if is_hosted() else "*").strip()
    return None if text == "*" else tuple(name.strip() for name in text.split(",") if name.strip())


def embedding_sites() -> tuple[str, ...]:
    """Returns the sites whose pages may have the app in a frame: ATTNVIZ_EMBED, addresses such as
    https://course.example.org separated by commas; none by default."""
    sites = [site.strip() for site in os.environ.get("ATTNVIZ_EMBED", "").split(",") if site.strip()]
    for site in sites:
        if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?", site):
            raise ValueError(
                f"ATTNVIZ_EMBED must list sites such as https://course.example.org with commas between them; "
                f"{quoted(site)} is not one."
            )
    return tuple(sites)


def log_style() -> LogStyle:
    """Returns how the log is written: ATTNVIZ_LOG, by default unchanged, and plain if hosted, where it may not be
    unchanged."""
    text = os.environ.get("ATTNVIZ_LOG") or (LogStyle.PLAIN if is_hosted() else LogStyle.UNCHANGED)
    allowed = [style for style in LogStyle if style != LogStyle.UNCHANGED or not is_hosted()]
    if text not in allowed:
        raise ValueError(f"ATTNVIZ_LOG must be {' or '.join(allowed)}; it is {quoted(text)}.")
    return LogStyle(text)


def metrics_port() -> int | None:
    """Returns the port of the metrics for Prometheus: ATTNVIZ_METRICS_PORT; None, no metrics, by default."""
    if not os.environ.get("ATTNVIZ_METRICS_PORT"):
        return None
    text = os.environ["ATTNVIZ_METRICS_PORT"]
    if not text.isdecimal() or not 1 <= int(text) <= 65_535:
        raise ValueError(f"ATTNVIZ_METRICS_PORT must be a port from 1 to 65535; it is {quoted(text)}.")
    return int(text)


def metrics_address() -> str:
    """Returns the address at which the metrics are served: ATTNVIZ_METRICS_ADDRESS, this computer alone by default."""
    text = os.environ.get("ATTNVIZ_METRICS_ADDRESS") or "127.0.0.1"
    try:
        return str(ip_address(text))
    except ValueError:
        raise ValueError(
            f"ATTNVIZ_METRICS_ADDRESS must be an address such as 127.0.0.1; it is {quoted(text)}."
        ) from None


def ray_address() -> str | None:
    """Returns the address of the Ray cluster that computes long maps: ATTNVIZ_RAY, auto, host:port or
    ray://host:port; None, this machine alone, by default."""
    return os.environ.get("ATTNVIZ_RAY") or None


def traces_folder() -> str | None:
    """Returns the folder whose traces everybody who reaches the app may open: ATTNVIZ_TRACES; None by default."""
    return os.environ.get("ATTNVIZ_TRACES") or None


def cache_folder() -> Path:
    """Returns the folder of what can be computed again: ATTNVIZ_CACHE; by default attnviz in the cache folder of the
    user, such as ~/.cache."""
    if folder := os.environ.get("ATTNVIZ_CACHE"):
        return Path(folder).expanduser()
    default = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    named = os.environ.get("XDG_CACHE_HOME", "")
    return Path(named if os.path.isabs(named) else os.path.expanduser(default)) / "attnviz"


def class_store() -> str:
    """Returns the address of the store of classes: ATTNVIZ_CLASS_STORE, a path, sqlite:///path or redis://host:port; by
    default a SQLite file in the home folder."""
    return os.environ.get("ATTNVIZ_CLASS_STORE") or "~/.attnviz/classes.sqlite3"


def class_hours() -> int:
    """Returns the number of hours after which a class is deleted: ATTNVIZ_CLASS_HOURS, 24 by default."""
    return _positive("ATTNVIZ_CLASS_HOURS", 24, "hours")


def written_tokens() -> int:
    """Returns the largest number of tokens that a model writes for a visitor at a time: ATTNVIZ_WRITE_TOKENS, 512 by
    default."""
    return _positive("ATTNVIZ_WRITE_TOKENS", 512, "tokens")


def writing_seconds() -> int:
    """Returns the number of seconds after which a model ends a visitor's text: ATTNVIZ_WRITE_SECONDS, 60 by default."""
    return _positive("ATTNVIZ_WRITE_SECONDS", 60, "seconds")


def writers() -> int:
    """Returns the number of texts that models write at the same time, while other visitors wait: ATTNVIZ_WRITERS, 2 by
    default."""
    return _positive("ATTNVIZ_WRITERS", 2, "texts")


def check_values() -> None:
    """Raises ValueError for the first setting that is malformed, or that is named like a setting and is not one."""
    check_names()
    for setting in (
        *(is_hosted, upload_bytes, unpacked_bytes, all_uploads_bytes, model_bytes, kept_models, has_tls_proxy),
        *(embedding_sites, log_style, metrics_port, metrics_address, class_hours, proxies),
        *(written_tokens, writing_seconds, writers),
    ):
        setting()


def check_names() -> None:
    """Raises ValueError for a variable that is named like a setting and is not one."""
    for name in sorted(os.environ):
        if name.startswith("ATTNVIZ_") and name not in NAMES:
            raise ValueError(f"There is no setting {quoted(name)}. The settings are {', '.join(NAMES)}.")


def _switch(name: str) -> bool:
    text = os.environ.get(name) or "0"
    if text not in ("0", "1"):
        raise ValueError(f"{name} must be 1 or 0; it is {quoted(text)}.")
    return text == "1"


def _positive(name: str, default: int, unit: str) -> int:
    text = os.environ.get(name) or str(default)
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{name} must be a whole number of {unit}, 1 or more; it is {quoted(text)}.")
    return int(text)
