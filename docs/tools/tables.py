"""The tables of the documentation that come from the code.

`python -m docs.tools.tables` writes those of the architectures, which take too long to be made in every build.
"""

from collections.abc import Iterable
from pathlib import Path

from attnviz.app_pages import GROUPS as PAGE_GROUPS
from attnviz.app_pages import START
from attnviz.layer import Fidelity
from attnviz.masks import GROUPS

ARCHITECTURES = Path(__file__).parents[1] / "tables" / "architectures.md"
ATTRIBUTIONS = ARCHITECTURES.with_name("attributions.md")


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Returns a table in Markdown."""
    header = list(header)
    lines = [header, ["-"] * len(header), *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def masks() -> str:
    """Returns every mask of the catalogue with its parameters' first values, group by group."""
    parts = (
        f"### {group}\n\n"
        + table(("mask", "with the values at the left"), ((f"`{mask()}`", mask().describe()) for mask in kinds))
        for group, kinds in GROUPS.items()
    )
    return "\n".join(parts)


def pages() -> str:
    """Returns the pages of the app, in the groups of its menu, and the question that each answers."""
    entries = [("", START), *((group.title, page) for group in PAGE_GROUPS for page in group.pages)]
    rows = ((group, f"[{page.title}]({page.name}.md)", page.question) for group, page in entries)
    return table(("group", "page", "it answers"), rows)


def architectures() -> str:
    """Returns the architectures that the tests compare with `attnviz.capture`, and what is shown of each."""
    from tests.support.architectures import ZOO  # it imports transformers
    from tests.support.torch_architectures import TORCH_ZOO

    every = (*ZOO, *TORCH_ZOO)
    counts = {fidelity: sum(one.fidelity == fidelity for one in every) for fidelity in Fidelity}
    rows = ((one.name, f"`{one.config}`", one.layers, one.fidelity) for one in every)
    summary = ", ".join(f"{count} `{fidelity}`" for fidelity, count in counts.items() if count)
    header = ("architecture", "config in transformers, or module", "attention layers in the test", "fidelity")
    return f"{len(every)} architectures: {summary}.\n\n{table(header, rows)}"


def attributions(rows: Iterable[Iterable[object]]) -> str:
    """Returns the sums of the architectures, of these rows."""
    header = ("architecture", "layers with heads", "MLPs", "error of an output", "error of a score", "held as factors")
    return table(header, rows)


def main() -> None:
    from tests.support.architectures import ZOO
    from tests.support.attributions import sums
    from tests.support.torch_architectures import TORCH_ZOO

    ARCHITECTURES.write_text(architectures(), "utf-8")
    ATTRIBUTIONS.write_text(attributions(sums(one).row for one in (*ZOO, *TORCH_ZOO)), "utf-8")


if __name__ == "__main__":
    main()
