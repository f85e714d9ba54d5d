"""Attention written out: every number, and the numbers it was made from.

A kind of example is a file here that gives the queries, keys and values of its heads, and how they attend.
"""

from attnviz.steps.computed import Steps, steps
from attnviz.steps.edits import LARGEST, Edits, read, write
from attnviz.steps.matrix import Matrix, Part, number
from attnviz.steps.operations import Concatenated, Product, RowSum, Scaled
from attnviz.steps.sentence import LEAST, MOST, WIDTH, Example
from attnviz.steps.translated import Translated
from attnviz.steps.work import Kind

__all__ = [
    "LARGEST",
    "LEAST",
    "MOST",
    "WIDTH",
    "Concatenated",
    "Edits",
    "Example",
    "Kind",
    "Matrix",
    "Part",
    "Product",
    "RowSum",
    "Scaled",
    "Steps",
    "Translated",
    "number",
    "read",
    "steps",
    "write",
]
