"""Attention written out, with every number and its operands.

Each kind of example has a module, which makes the queries, keys and values of its heads, and their mechanism.
"""

from attnviz.steps.all_steps import Steps, compute_steps
from attnviz.steps.computation import StepsExample
from attnviz.steps.edits import LARGEST, Edits, format_edits, parse_edits
from attnviz.steps.matrix import CellRange, Matrix, cell_number
from attnviz.steps.operations import Concatenated, Product, RowTotals, Scaled
from attnviz.steps.sentence_example import FEWEST_WORDS, MOST_WORDS, WIDTH, SentenceExample
from attnviz.steps.translator_example import TranslatorExample

__all__ = [
    "FEWEST_WORDS",
    "LARGEST",
    "MOST_WORDS",
    "WIDTH",
    "CellRange",
    "Concatenated",
    "Edits",
    "Matrix",
    "Product",
    "RowTotals",
    "Scaled",
    "SentenceExample",
    "Steps",
    "StepsExample",
    "TranslatorExample",
    "cell_number",
    "compute_steps",
    "format_edits",
    "parse_edits",
]
