"""make mutate: how many small mistakes in the core its tests notice.

Each mutant is one module of the core with one operator, comparison or constant changed. It is killed if a test of the
module fails, or takes far longer than it should. The processes are forked from one that has torch imported, so that a
mutant costs little more than its tests.

    python -m tests.mutate [--sample N] [--seed S] [MODULE …]
"""

import argparse
import ast
import importlib
import os
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_loader
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = ("inputs.py", "mechanism.py", "scores.py", "biases.py", "normalizers.py", "masks", "analysis")
IMPORTED = (  # what takes long to import and has no part of the core in it
    "torch",
    "numpy",
    "pytest",
    "hypothesis",
    "entmax",
    "jaxtyping",
    "attn_gym",
    "plotly.graph_objects",
    "streamlit",
    "streamlit.web.server",
    "torch.nn.attention.flex_attention",
    "torch._dynamo",
    "transformers.modeling_utils",
)
PYTEST = ("-x", "-q", "-n0", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib")
SECONDS = 240  # of computing for one mutant
GOAL = 0.85

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Pow: ast.Mult,
    ast.Not: ast.UAdd,
    ast.Invert: ast.UAdd,
    ast.USub: ast.UAdd,  # +x is x
}


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """The line, the description and the source of each mutant of a module."""
    for i in range(len(list(_changes(ast.parse(source))))):
        tree = ast.parse(source)
        node, field, changed = list(_changes(tree))[i]
        before = ast.unparse(node)
        setattr(node, field, changed)
        yield node.lineno, f"{before}  →  {ast.unparse(node)}", ast.unparse(tree)


def _changes(tree: ast.AST) -> Iterator[tuple[ast.expr, str, object]]:
    """Expressions, what in them can be changed, and to what; none in annotations, texts, errors or widgets' limits."""
    children = [child for name, child in ast.iter_fields(tree) if name not in ("annotation", "returns")]
    for node in (one for child in children for one in (child if isinstance(child, list) else [child])):
        match node:
            case ast.keyword(arg="metadata") | ast.Expr(value=ast.Constant()):
                continue
            case ast.BinOp(op=op) | ast.UnaryOp(op=op) | ast.BoolOp(op=op) if type(op) in SWAPS:
                yield node, "op", SWAPS[type(op)]()
            case ast.Compare(ops=[first, *others]) if type(first) in SWAPS:
                yield node, "ops", [SWAPS[type(first)](), *others]
            case ast.Constant(value=bool(value)):
                yield node, "value", not value
            case ast.Constant(value=int(value) | float(value)):
                yield node, "value", value + 1
        if isinstance(node, ast.AST) and not isinstance(node, (ast.JoinedStr, ast.Raise)):
            yield from _changes(node)


def tests_of(path: Path) -> Path:
    """The tests that are to kill a mutant of this file: those of its name or its package's, or all in its folder."""
    parts = path.relative_to(ROOT / "attnviz").with_suffix("").parts
    for end in range(len(parts), 0, -1):
        own = ROOT.joinpath("tests", *parts[: end - 1], f"test_{parts[end - 1]}.py")
        if own.exists():
            return own
    return ROOT / "tests" / parts[0]


def survivors(files: Iterable[tuple[Path, str]]) -> Iterator[int]:
    """The positions of those files that no test notices with that source in their place, as they are found."""
    running: dict[int, int] = {}
    waiting = enumerate(files)
    while True:
        while len(running) < (os.cpu_count() or 1) and (one := next(waiting, None)):
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

    class Mutant(SourceFileLoader):
        def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
            return spec_from_loader(fullname, self) if fullname == self.name else None

        def get_code(self, fullname: str) -> object:
            return compile(source, str(path), "exec")

    parts = path.relative_to(ROOT).with_suffix("").parts
    sys.meta_path.insert(0, Mutant(".".join(parts).removesuffix(".__init__"), str(path)))  # type: ignore[arg-type]
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    return int(importlib.import_module("pytest").main([*PYTEST, str(tests_of(path))]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=CORE)
    parser.add_argument("--sample", type=int, default=0, help="the number of mutants, drawn at random; 0: all")
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
    start = time.monotonic()
    unchanged = {tests_of(file): (file, file.read_text()) for file in files}.values()
    if len(list(survivors(unchanged))) < len(unchanged):
        sys.exit("Without any mutant, not all of the core's tests pass.")
    done, alive = Counter(file for file, *_ in drawn), Counter[Path]()
    for position in survivors((file, source) for file, _, _, source in drawn):
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
