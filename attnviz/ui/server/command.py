"""The command attnviz: opens the app, on Streamlit's server."""

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from socket import AF_INET, SOCK_DGRAM, socket

from attnviz import __version__
from attnviz.base.app_files import APP
from attnviz.base.extras import check_installed
from attnviz.base.formatting import enumeration
from attnviz.models.wheel import missing_models, models_install_line

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ALLOWED_HOSTS = "--server.allowedHosts"
ALLOWED_HOSTS_VARIABLE = "STREAMLIT_SERVER_ALLOWED_HOSTS"
WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 which addresses are meant, not what is listened on


def main(arguments: Sequence[str] | None = None) -> None:
    """Starts the app with the arguments of the command line; ends the process when the app ends."""
    try:
        options = streamlit_options(sys.argv[1:] if arguments is None else arguments)
        check_installed("app", "The app")
        if missing := missing_models():
            names = enumeration([wheel.name for wheel in missing])
            line = models_install_line()
            print(
                f"Without {names}, pages open with other examples, or say what is missing. Install with: {line}",
                file=sys.stderr,
            )
    except (ImportError, ValueError) as error:
        sys.exit(f"attnviz does not start. {error}")
    # Not before torch is needed: app.py says how many threads it takes.
    from streamlit.web.cli import main as streamlit  # noqa: TID251 - what Streamlit installs as its command

    streamlit(["run", str(APP), *options], prog_name="attnviz")


def streamlit_options(arguments: Sequence[str]) -> list[str]:
    """Returns the options of `streamlit run` for the arguments of the command; unknown ones are passed on unchanged.

    Prints the help or the version and raises SystemExit if they are asked for. Raises ValueError for an address that
    others reach without the names at which they open it.
    """
    parser = ArgumentParser(
        "attnviz",
        allow_abbrev=False,
        description="Opens attnviz in the browser: see how attention works, and what it does. "
        "attnviz capture writes the attention of a text into a trace, attnviz map computes a map from one, and "
        "attnviz trace checks one; attnviz picture writes what a link shows to a file; attnviz models installs models, "
        "and attnviz doctor says what is installed and what is missing; each has a --help of its own.",
        epilog="All other options are those of “streamlit run”, such as --server.baseUrlPath attn.",
    )
    parser.add_argument("--version", action="version", version=f"attnviz {__version__}")
    parser.add_argument("--port", type=_port, help="the port (by default the first that is free from 8501)")
    parser.add_argument("--host", metavar="ADDRESS", help="the address to listen on (by default this computer alone)")
    parser.add_argument(
        "--allowed-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name at which others open it, such as attn.example.org; may be given several times",
    )
    parser.add_argument(
        "--class",
        dest="network",
        action="store_true",
        help="let phones and computers of this network in, for a live class",
    )
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    known, others = parser.parse_known_args(arguments)
    others = [option for option in others if option != "--"]
    if known.network and not known.host:
        known.host = network_address()
        known.allowed_host.append(known.host)
    named = known.allowed_host or os.environ.get(ALLOWED_HOSTS_VARIABLE, "").split()
    if known.host and known.host not in LOOPBACK and not named and not any(map(_names_hosts, others)):
        raise ValueError(
            f"At --host {known.host} others reach it, and it answers only at names that you list. "
            "Add those at which it is opened, such as --allowed-host attn.example.org."
        )
    options = [] if known.port is None else [f"--server.port={known.port}"]
    options += [f"--server.address={known.host}"] if known.host else []
    if known.host in WILDCARDS:  # without a name to print, Streamlit would ask another host for this computer's address
        options += [f"--browser.serverAddress={[*named, known.host][0]}"]
    options += [f"{ALLOWED_HOSTS}={name}" for name in (*known.allowed_host, *LOOPBACK) if known.allowed_host]
    options += ["--server.headless=true"] if known.no_browser else []
    return options + others


def network_address() -> str:
    """Returns the address of this computer in its network. Raises ValueError if it is in none."""
    with socket(AF_INET, SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # belongs to no computer; nothing is sent, only the route is looked up
        except OSError as problem:
            raise ValueError("This computer is in no network that phones could join.") from problem
        return str(probe.getsockname()[0])


def _names_hosts(option: str) -> bool:
    return option.partition("=")[0] == ALLOWED_HOSTS


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65_535:
        raise ArgumentTypeError(f"a port is a whole number from 1 to 65535; it is {text!r}")
    return int(text)
