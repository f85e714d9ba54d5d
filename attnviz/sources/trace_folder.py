"""A trace in a folder that the owner of the app has allowed."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from attnviz.base.formatting import enumeration, quoted
from attnviz.base.language import _, value_error
from attnviz.base.settings import traces_folder
from attnviz.sources.source import MissingInput, Source
from attnviz.trace import Trace
from attnviz.trace.manifest import NAME as MANIFEST

NAME = re.compile(r"\w[\w. -]{0,100}")
MOST_NAMED = 12


@dataclass(frozen=True, repr=False)
class TraceFolder(Source):
    """A trace that `attnviz capture` has written, by its name in the folder of traces on the computer that runs
    attnviz. Its vectors are read when they are drawn, so that a text may be long.
    """

    NAME: ClassVar[str] = "Trace"

    trace: str = field(default="", metadata={"label": "Trace"})

    def __repr__(self) -> str:
        """The text of the source, another one when the trace has been written again."""
        return f"TraceFolder(trace={self.trace!r}, written={self._last_modified()})"

    @property
    def subject(self) -> tuple[str, ...]:
        return *super().subject, self.trace.strip()

    def layers(self) -> Trace:
        """Returns the trace. Raises MissingInput without a name, ValueError if there is no such trace."""
        root = _root()
        if not self.trace.strip():
            raise MissingInput(_("Name a trace to see its attention. {available}", available=_available(root)))
        folder = self._folder(root)
        if folder is None:
            raise value_error(
                "There is no trace {strip} here. {available}",
                strip=quoted(self.trace.strip()),
                available=_available(root),
            )
        return Trace.load(folder)

    def _folder(self, root: Path) -> Path | None:
        """Returns the folder of the trace, or None if it is not one inside of the folder of traces."""
        name = self.trace.strip()
        folder = (root / name).resolve() if NAME.fullmatch(name) else root
        return folder if folder.parent == root and folder.is_dir() else None

    def _last_modified(self) -> int:
        try:
            folder = self._folder(_root())
            return 0 if folder is None else (folder / MANIFEST).lstat().st_mtime_ns
        except (OSError, ValueError):
            return 0


def _root() -> Path:
    """Returns the folder of traces. Raises MissingInput if the owner of the app has allowed none."""
    folder = traces_folder()
    if folder is None:
        raise MissingInput(
            _(
                "Traces cannot be opened here until whoever runs attnviz sets ATTNVIZ_TRACES to the "
                "folder that holds them."
            )
        )
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise MissingInput(_("The folder of traces, ATTNVIZ_TRACES, does not exist."))
    return root.resolve()


def _available(root: Path) -> str:
    """Returns a sentence that names the traces in the folder."""
    names = sorted(one.name for one in root.iterdir() if NAME.fullmatch(one.name) and (one / MANIFEST).is_file())
    if not names:
        return "There are none yet: attnviz capture writes them."
    more = [f"{len(names) - MOST_NAMED} more"] * (len(names) > MOST_NAMED)
    return f"Here {'is' if len(names) == 1 else 'are'} {enumeration([*map(quoted, names[:MOST_NAMED]), *more])}."
