"""The command attnviz: alone it opens the app; a word after it is a subcommand, which needs no Streamlit."""

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module

from attnviz.base.formatting import enumeration, quoted
from attnviz.base.install_command import install_line

# The module of each, whose main(arguments) runs it. Imported when it is named: torch takes seconds.
COMMANDS = ("atlas", "capture", "doctor", "heads", "map", "models", "picture", "trace")
SUBCOMMANDS = {name: f"attnviz.command.{name}" for name in COMMANDS}
APP = "attnviz.ui.server.command"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the subcommand that the first argument names, or opens the app. Ends the process if it names another."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments and not arguments[0].startswith("-") and arguments[0] not in SUBCOMMANDS:
        near = get_close_matches(arguments[0], COMMANDS, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are {enumeration(COMMANDS)}."
        sys.exit(f"attnviz has no command {quoted(arguments[0])}. {hint} Without one, it opens the app.")
    try:
        if arguments and arguments[0] in SUBCOMMANDS:
            import_module(SUBCOMMANDS[arguments[0]]).main(arguments[1:])
        else:
            import_module(APP).main(arguments)
    except ModuleNotFoundError as error:  # in a damaged environment; what an extra needs is said by each command
        sys.exit(f"attnviz needs {error.name}, which is not installed. Install with: {install_line('app')}")
