"""The engine that a command names: this machine, or the Ray cluster at ATTNVIZ_RAY."""

import sys
from argparse import ArgumentParser
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attnviz.analysis.engines import Engine


def add_engine_option(parser: ArgumentParser) -> None:
    """Adds --engine, local by default."""
    parser.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="where it is computed: on this machine (the default), or on the Ray cluster at ATTNVIZ_RAY",
    )


def named_engine(name: str, threads: int | None = None) -> "Engine":
    """Returns the engine, or this machine's, with a warning on stderr, if the cluster is not reached."""
    from attnviz.analysis.engines import Local
    from attnviz.analysis.ray_engine import ray_or_local
    from attnviz.base.settings import ray_address

    if name == "local":
        return Local(threads)
    engine, reason = ray_or_local(ray_address() or "auto")
    if reason:
        print(reason, file=sys.stderr)
        return Local(threads)
    return engine
