"""The layout of a script: lines, functions, arrays, and the example at its end."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from attnviz.base.formatting import byte_size

COLUMNS = 100
MANY_SCORES = 2**27  # 512 MB
MOST_NUMBERS = 2048  # of weights that are written out


@dataclass(frozen=True)
class Library:
    """The names and the syntax in which NumPy and torch differ."""

    name: str
    array: str
    clamp: str
    normalized: str
    seed: str
    random: str


TORCH = Library(
    name="torch",
    array="torch.tensor({}, device=device)",
    clamp="clamp",
    normalized="torch.nn.functional.normalize({}, dim=-1)",
    seed="torch.manual_seed(0)",
    random="torch.randn({}, device=device)",
)
NUMPY = Library(
    name="np",
    array="np.array({})",
    clamp="clip",
    normalized="{0} / np.linalg.norm({0}, axis=-1, keepdims=True).clip(min=1e-12)",
    seed="random = np.random.default_rng(0)",
    random="random.standard_normal(({}))",
)


@dataclass(frozen=True)
class Target:
    """The target of generated code: a library, and the sizes of the example."""

    queries: int
    keys: int
    heads: int
    kv_heads: int
    d_q: int
    d_k: int
    d_v: int
    library: Library

    @property
    def group_size(self) -> int:
        """The number of query heads that share one kv head."""
        return self.heads // self.kv_heads

    @property
    def cells(self) -> int:
        """The number of scores."""
        return self.heads * self.queries * self.keys

    def lines(self) -> list[str]:
        """Returns lines that make random query, key and value, and the output."""
        shapes = {
            "query": (1, self.heads, self.queries, self.d_q),
            "key": (1, self.kv_heads, self.keys, self.d_k),
            "value": (1, self.kv_heads, self.keys, self.d_v),
        }
        return [
            "# An example. Put your own numbers here, of shape (batch, heads, tokens, width).",
            self.library.seed,
            *(f"{name} = {self.library.random.format(comma_separated(shape))}" for name, shape in shapes.items()),
            "output = attention(query, key, value)",
            'print("output", tuple(output.shape))',
        ]


def script(
    title: str, imports: str, head: Sequence[str], body: Sequence[str], target: Target, more: Sequence[str] = ()
) -> str:
    """Returns a whole script: imports, definitions, functions, and an example with more lines after it."""
    counts = f"{_count(target.queries, 'query', 'queries')} and {_count(target.keys, 'key', 'keys')}"
    top = f"# Attention of {counts}, {_count(target.heads, 'head', 'heads')}, with {title}.\n"
    if target.cells > MANY_SCORES:
        top += f"# All scores in single precision take {byte_size(4 * target.cells)} of memory.\n"
    top += imports
    blocks = ["\n\n".join([top, "\n".join(head)]) if head else top, *body]
    main = "\n".join(['if __name__ == "__main__":', *indented([*target.lines(), *more])])
    return "\n\n\n".join([*blocks, main]) + "\n"


def function(signature: str, lines: Iterable[str]) -> str:
    return "\n".join([f"def {signature}:", *indented(lines)])


def call(name: str, arguments: Sequence[str]) -> list[str]:
    """Returns lines that return the result of a call, one for each argument where they do not fit on one."""
    line = f"return {name}({', '.join(arguments)})"
    if len(line) <= COLUMNS - 4:
        return [line]
    return [f"return {name}(", *indented(f"{argument}," for argument in arguments), ")"]


def position_definitions(lines: Iterable[str], arange: str) -> list[str]:
    """Returns definitions of the positions that the lines use, shaped to broadcast against the scores."""
    axes = {
        "b": ("query.shape[0]", "[:, None, None, None]"),
        "h": ("query.shape[1]", "[:, None, None]"),
        "q_idx": ("query.shape[2]", "[:, None]"),
        "kv_idx": ("key.shape[2]", "[None, :]"),
    }
    words = set(re.findall(r"\w+", " ".join(line for line in lines if not line.startswith("#"))))
    return [f"{name} = {arange.format(size)}{shape}" for name, (size, shape) in axes.items() if name in words]


def array_definition(name: str, numbers: Tensor | Sequence[int], library: Library) -> str:
    """Returns the definition of an array with all its numbers. Raises ValueError if they are too many weights."""
    if isinstance(numbers, Tensor) and numbers.numel() > MOST_NUMBERS:
        raise ValueError(
            f"{name} holds {numbers.numel()} numbers, too many to write into code: {MOST_NUMBERS} would do. "
            "Take narrower vectors, or another score."
        )
    rows = numbers.tolist() if isinstance(numbers, Tensor) else [int(number) for number in numbers]
    listed = [f"[{comma_separated(row)}]" if isinstance(row, list) else _number(row) for row in rows]
    line = f"{name} = {library.array.format(f'[{comma_separated(listed)}]')}"
    if len(line) <= COLUMNS:
        return line
    # A matrix has a line or more for each row, a list as few as there can be.
    texts = [f"{row}," for row in listed] if isinstance(rows[0], list) else [f"{comma_separated(listed)},"]
    wrapped = (textwrap.wrap(text, COLUMNS - 4) for text in texts)
    inside = "\n".join(["[", *indented(part for parts in wrapped for part in parts), "]"])
    return f"{name} = {library.array.format(inside)}"


def random_definition(name: str, shape: Sequence[int], seed: int, spread: float = 1.0) -> str:
    """Returns the definition of a tensor that torch draws from the seed."""
    numbers = f"torch.randn({comma_separated(shape)}, generator=torch.Generator().manual_seed({int(seed)}))"
    return f"{name} = {numbers}.to(device)" + f" * {float_literal(spread)}" * (spread != 1)


def comment(text: str) -> list[str]:
    """Returns any text as lines of a comment in a function."""
    return [f"# {line}" for line in textwrap.wrap(" ".join(text.split()), COLUMNS - 6)]


def indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def quotient(text: str, by: float) -> str:
    """Returns the code of a factor or a name divided by a number."""
    return text if by == 1 else f"{text} / {float_literal(by)}"


def float_literal(number: float) -> str:
    return repr(float(number))


def comma_separated(values: Iterable[object]) -> str:
    return ", ".join(value if isinstance(value, str) else _number(value) for value in values)


def _number(number: object) -> str:
    """A number in as few digits as single precision needs."""
    return f"{number:.9g}" if isinstance(number, float) else str(number)


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"
