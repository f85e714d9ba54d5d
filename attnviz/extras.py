"""The packages that parts of attnviz need beside those of the library, and the command that installs them."""

from importlib.util import find_spec

from attnviz.formatting import enumeration

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
            f"{purpose} needs {enumeration(missing)}, which {verb} not installed. "
            f'Install with: pip install "attnviz[{extra}]"'
        )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # a module that somebody has replaced
        return False
