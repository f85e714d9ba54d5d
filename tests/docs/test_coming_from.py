"""What the page on other tools says of their versions."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_versions_of_other_tools_are_those_that_are_tested() -> None:
    page, makefile = ((ROOT / name).read_text("utf-8") for name in ("docs/coming-from.md", "Makefile"))
    named = dict(re.findall(r"(TransformerLens|nnsight|inseq) (\d+\.\d+\.\d+)", page))
    pinned = dict(re.findall(r"--with (transformer-lens|nnsight|inseq)==(\S+)", makefile))
    assert {name.replace("TransformerLens", "transformer-lens"): version for name, version in named.items()} == pinned
