"""make mutate: how many small mistakes in the core its tests notice.

Each mutant is one module of the core with one operator, comparison or constant changed. It is killed if a test of the
module fails, or takes far longer than it should. The processes are forked from one that has torch imported, so that a
mutant costs little more than its tests.

    python -m tests.mutate [--sample N] [--seed S] [MODULE …]
"""

import argparse
import ast
import importlib
import importlib.util
import io
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = ("inputs.py", "mechanism.py", "scores.py", "biases.py", "normalizers.py", "masks", "analysis")
IMPORTED = ("torch", "numpy", "pytest", "hypothesis", "entmax", "jaxtyping", "attn_gym", "plotly.graph_objects")
SECONDS = 240  # of computing for one mutant
GOAL = 0.85

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.And: ast.Or, ast.Or: ast.And, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.UAdd: ast.USub, ast.Pow: ast.Mult,
}  # fmt: skip


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """The line, the description and the source of each mutant of a module."""
    count = sum(1 for _ in _places(ast.parse(source)))
    for i in range(count):
        tree = ast.parse(source)
        node, name = next(place for j, place in enumerate(_places(tree)) if j == i)
        before = ast.unparse(node)
        _change(node, name)
        yield node.lineno, f"{before}  →  {ast.unparse(node)}", ast.unparse(ast.fix_missing_locations(tree))


def _places(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """The expressions that can be changed, and what in them; no annotations, no texts, no widgets' limits."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.keyword) and node.arg == "metadata":
            continue
        if isinstance(node, ast.AnnAssign):
            yield from _places(node.value) if node.value else ()
            continue
        if isinstance(node, ast.arg) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        if isinstance(node, ast.FunctionDef):
            for part in (*node.decorator_list, node.args, *node.body):
                yield from _places(ast.Module([part], []) if isinstance(part, ast.stmt) else part)
            continue
        if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.BoolOp)) and type(node.op) in SWAPS:
            yield node, "op"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert, ast.USub)):
            yield node, "drop"
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            yield node, "ops"
        if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            yield node, "value"
        if not isinstance(node, (ast.JoinedStr, ast.Raise)):
            yield from _places(node)


def _change(node: ast.expr, name: str) -> None:
    if name == "op":
        node.op = SWAPS[type(node.op)]()  # type: ignore[attr-defined]
    elif name == "ops":
        node.ops[0] = SWAPS[type(node.ops[0])]()  # type: ignore[attr-defined]
    elif name == "drop":  # +x is x
        node.op = ast.UAdd()  # type: ignore[attr-defined]
    elif isinstance(node.value, bool):  # type: ignore[attr-defined]
        node.value = not node.value  # type: ignore[attr-defined]
    else:
        node.value += 1  # type: ignore[attr-defined]


def tests_of(path: Path) -> Path:
    """The tests that are to kill a mutant of this file: a file of the same name, or else all in the same folder."""
    inside = path.relative_to(ROOT / "attnviz")
    own = ROOT / "tests" / inside.parent / f"test_{inside.stem}.py"
    return own if own.exists() else ROOT / "tests" / inside.parts[0]


def survivors(files: Iterable[tuple[Path, str]], jobs: int) -> Iterator[int]:
    """The positions of those files that no test notices with that source in their place, as they are found."""
    running: dict[int, int] = {}
    waiting = enumerate(files)
    while True:
        while len(running) < jobs and (one := next(waiting, None)):
            child = os.fork()
            if child == 0:
                os._exit(_run(*one[1]))
            running[child] = one[0]
        if not running:
            return
        child, status = os.wait()
        position = running.pop(child)
        if status == 0:
            yield position


def _run(path: Path, source: str) -> int:
    """In the child: the tests with the mutant imported; 0 if none notices it."""
    import resource

    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    inside = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(inside[:-1] if inside[-1] == "__init__" else inside)

    class Mutated:
        @staticmethod
        def find_spec(fullname: str, *_: object) -> object:
            return (
                importlib.util.spec_from_file_location(fullname, path, loader=Loader(fullname, str(path)))
                if (fullname == name)
                else None
            )

    class Loader(importlib.machinery.SourceFileLoader):
        def get_code(self, fullname: str) -> object:
            return compile(source, str(path), "exec")

    sys.meta_path.insert(0, Mutated)  # type: ignore[arg-type]
    import pytest

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib"]
        return int(pytest.main([*options, str(tests_of(path))]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=CORE)
    parser.add_argument("--sample", type=int, default=0, help="so many mutants, drawn at random; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    for name in IMPORTED:
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    files = [file for name in asked.modules for file in _files(ROOT / "attnviz" / name)]
    every = [(file, *mutant) for file in files for mutant in mutants(file.read_text())]
    drawn = random.Random(asked.seed).sample(every, min(asked.sample or len(every), len(every)))
    drawn.sort(key=lambda one: (str(one[0]), one[1]))
    start, jobs = time.monotonic(), os.cpu_count() or 1
    if len(list(survivors([(file, file.read_text()) for file in files], jobs))) < len(files):
        sys.exit("Without any mutant, not all of the core's tests pass.")
    done, alive = Counter(file for file, *_ in drawn), Counter[Path]()
    for position in survivors([(file, source) for file, _, _, source in drawn], jobs):
        file, line, change, _ = drawn[position]
        alive[file] += 1
        print(f"survived  {file.relative_to(ROOT)}:{line}  {change}", flush=True)
    for file, count in done.items():
        print(f"{count - alive[file]:>6} of {count:>4} killed  {file.relative_to(ROOT)}")
    share = 1 - alive.total() / max(1, done.total())
    minutes = (time.monotonic() - start) / 60
    print(f"{share:.1%} of {done.total():,} killed, of {len(every):,} mutants; {minutes:.1f} minutes")
    sys.exit(share < GOAL)


def _files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


if __name__ == "__main__":
    main()
