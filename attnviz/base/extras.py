"""The packages that parts of attnviz need beside those of the library, and the command that installs them."""

from importlib.util import find_spec

from attnviz.base.formatting import enumeration
from attnviz.base.install_command import install_line
from attnviz.base.language import _

PACKAGES = {
    "app": ("streamlit", "transformers"),
    "models": ("transformers",),
    "ray": ("ray",),
    "redis": ("redis",),
}


def check_installed(extra: str, purpose: str) -> None:
    """Raises ImportError, with the command that installs them, if packages of an extra are missing.

    Example:
        >>> check_installed("models", "A trained model")
    """
    missing = [name for name in PACKAGES[extra] if not _is_installed(name)]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ImportError(
            _(
                "{purpose} needs {missing}, which {verb} not installed. Install with: {command}",
                purpose=purpose,
                missing=enumeration(missing),
                verb=verb,
                command=install_line(extra),
            )
        )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # a module that somebody has replaced
        return False
