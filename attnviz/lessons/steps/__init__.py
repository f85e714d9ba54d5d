"""Attention written out: every number, and the numbers it was made from.

A kind of example is a file here that gives the queries, keys and values of its heads, and how they attend.
"""

from attnviz.lessons.steps.computed import Steps, steps
from attnviz.lessons.steps.edits import LARGEST, Edits, read, write
from attnviz.lessons.steps.matrix import Matrix, Part, number
from attnviz.lessons.steps.operations import Concatenated, Product, RowSum, Scaled
from attnviz.lessons.steps.sentence import LEAST, MOST, WIDTH, Example
from attnviz.lessons.steps.translated import Translated
from attnviz.lessons.steps.work import Kind

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
