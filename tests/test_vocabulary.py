"""The words of names: one word for one idea, and one meaning for each public name."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

REPLACED = {
    "brought": "source",
    "desk": "queue",
    "exchange": "intervention",
    "exchanged": "intervention",
    "guess": "prediction",
    "leftovers": "stale parameters",
    "pooled": "downsampled",
    "reduced": "downsampled",
    "room": "budget",
    "seeing": "valid",
    "shelf": "cache",
    "snippet": "export",
    "snippets": "export",
    "standing": "fidelity",
    "swapped": "intervention",
    "taken": "aggregated",
    "together": "aggregated",
    "told": "teacher forced",
    "went": "mass shift",
}
# Participles that name what was done to a value, not the value.
REPLACED |= dict.fromkeys(
    ["asked", "beside", "found", "given", "held", "said", "say", "says", "seen", "wanted"], "what the value is"
)
NO_NOUNS = {"among", "at", "how", "of", "what", "where", "which", "who"}  # as whole names
PUBLIC_ARGUMENTS = {
    ("attnviz/attribution/attribution.py", "of"),
    ("attnviz/notebook/sums.py", "of"),
    ("attnviz/effects/ablation.py", "how"),
    ("attnviz/effects/circuits.py", "how"),
    ("attnviz/effects/compensation.py", "how"),
    ("attnviz/effects/hidden_region.py", "how"),
    ("attnviz/effects/part_effects.py", "how"),
    ("attnviz/effects/parts.py", "how"),
    ("attnviz/effects/patching.py", "what"),
    ("attnviz/effects/path_patching.py", "what"),
}

MOST_LETTERS = 70  # of the name of a test

# Functions of one meaning in every module that has them.
INTERFACES = {
    *("inspect", "is_installed", "is_loaded"),  # of models that come as wheels
    *("load", "save"),  # of a package: its model; of the library: a result in a file
    # Metrics of attributions and effects, and what they are of: a step of Path, scores of a mechanism.
    *("Activation", "Cosine", "Score"),
    "main",  # of programs: `python -m module`
    "show",  # of the parts of a page: draws the part
    "why",  # what the page shows, and the viewer of it in a notebook
}


@cache
def trees(folder: str) -> dict[str, ast.Module]:
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in (ROOT / folder).rglob("*.py")}


def bound_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node.lineno
            case ast.arg():
                yield node.arg, node.lineno
            case ast.Name(ctx=ast.Store()):
                yield node.id, node.lineno
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr, node.lineno


def words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def test_names_use_the_words_of_the_field() -> None:
    mistakes = [
        f"{path}:{line}: {name}: {REPLACED.get(word, 'a noun')} is the word"
        for folder in ("attnviz", "pages")
        for path, tree in trees(folder).items()
        for name, line in bound_names(tree)
        for word in words(name)
        if word in REPLACED or (word in NO_NOUNS and word == name.strip("_").lower())
        if (path, name) not in PUBLIC_ARGUMENTS
    ]
    assert not mistakes


def test_a_public_name_is_defined_once() -> None:
    """Constants are read with their module, and may have the same name as another module's."""
    modules = defaultdict(set)
    for path, tree in trees("attnviz").items():
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names = [node.name]
            for name in names:
                if not name.startswith("_") and not name.isupper() and name not in INTERFACES:
                    modules[name].add(path)
    assert not {name: paths for name, paths in modules.items() if len(paths) > 1}


def test_names_of_tests_can_be_read_at_a_glance() -> None:
    names = [name for tree in trees("tests").values() for name, _ in bound_names(tree) if name.startswith("test_")]
    assert [name for name in names if len(name) > MOST_LETTERS] == []
