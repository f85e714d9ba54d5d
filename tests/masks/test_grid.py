import io
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_mask

from attnviz.masks import Causal, Shifted
from attnviz.masks.grid import LINE, MOST_FILE_BYTES, Grid
from attnviz.masks.mask import rule
from attnviz.masks.parser import parse
from tests.support.array_files import npy

# beartype looks at a random item of a tuple, which Hypothesis would rather draw itself.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

SIZE = st.integers(1, 9)
MATRIX = st.tuples(SIZE, SIZE).flatmap(
    lambda size: st.lists(
        st.lists(st.booleans(), min_size=size[1], max_size=size[1]), min_size=size[0], max_size=size[0]
    )
)


def cells(mask, queries, keys):
    """What a mask says of every cell, asked with positions that broadcast."""
    q, k = torch.arange(queries)[:, None], torch.arange(keys)
    return mask(torch.tensor(0), torch.tensor(0), q, k).expand(queries, keys)


@given(MATRIX)
def test_a_grid_is_its_matrix_in_every_form(matrix):
    grid, array = Grid.from_array(matrix), np.array(matrix)
    rows, columns = array.shape
    assert np.array_equal(grid.array(), array)
    assert np.array_equal(cells(grid.bind(rows, columns, 1), rows, columns).numpy(), array)
    assert np.array_equal(cells(rule(grid, rows, columns), rows, columns).numpy(), array)
    assert parse(str(grid)) == grid == Grid.from_array(array.astype(float)) == Grid.from_array(torch.tensor(matrix))
    assert hash(parse(str(grid))) == hash(grid)
    assert eval(repr(grid), {"Grid": Grid}) == grid
    assert grid.describe().startswith(f"A query sees a key if their cell is one of the {array.sum()} that are set")


@given(MATRIX, st.integers(1, 5), st.integers(0, 4), st.integers(0, 4))
def test_a_cell_of_a_block_sparse_grid_is_a_block_of_pairs(matrix, block, fewer_queries, fewer_keys):
    array = np.array(matrix)
    queries, keys = (
        count * block - min(fewer, block - 1)
        for count, fewer in zip(array.shape, (fewer_queries, fewer_keys), strict=True)
    )
    grid = Grid.from_array(array, block)
    expected = array.repeat(block, 0).repeat(block, 1)[:queries, :keys]
    assert np.array_equal(cells(grid.bind(queries, keys, 1), queries, keys).numpy(), expected)
    assert np.array_equal(cells(rule(grid, queries, keys), queries, keys).numpy(), expected)
    assert parse(str(grid)) == grid
    assert eval(repr(grid), {"Grid": Grid}) == grid


def test_a_block_sparse_grid_of_other_lengths_is_refused_in_words():
    with pytest.raises(ValueError, match="2 × 2 blocks of 64; here there are 129 queries and 100 keys"):
        Grid.from_array(np.ones((2, 2)), 64).bind(129, 100, 1)


@given(MATRIX, MATRIX)
def test_grids_are_equal_where_their_matrices_are(a, b):
    assert (Grid.from_array(a) == Grid.from_array(b)) == (a == b)


def test_a_grid_runs_in_flex_attention():
    array = torch.rand(5, 7) < 0.4
    assert torch.equal(create_mask(Grid.from_array(array).bind(5, 7, 1), None, None, 5, 7, device="cpu")[0, 0], array)


def test_cells_are_written_row_by_row():
    assert str(Grid.from_array(np.tril(np.ones((8, 8))))) == "grid(8, 8, 0x80c0e0f0f8fcfeff)"
    assert str(Grid.from_array([[False, True, False]])) == "grid(1, 3, 0x2)"
    assert str(Grid.from_array(np.zeros((3, 3)))) == "grid(3, 3, 0x000)"


def test_nothing_is_allowed_outside_the_grid():
    whole = Grid.from_array(np.ones((2, 3)))
    assert cells(whole, 4, 5).tolist() == [[q < 2 and k < 3 for k in range(5)] for q in range(4)]
    assert cells(Shifted(whole, -1), 4, 5).tolist() == [[1 <= q < 3 and k < 3 for k in range(5)] for q in range(4)]


def test_the_largest_grid_is_said_and_read():
    array = np.random.default_rng(0).random((512, 512)) < 0.5
    grid = Grid.from_array(array)
    assert parse(f"~{grid} & causal") == ~grid & Causal()
    assert np.array_equal(cells(grid.bind(512, 512, 1), 512, 512).numpy(), array)
    assert eval(repr(grid), {"Grid": Grid}) == grid


def test_other_lengths_are_refused_in_words():
    with pytest.raises(ValueError, match=r"The grid is 8 × 8; here there are 13 queries and 13 keys\. Paint or upload"):
        Grid.from_array(np.ones((8, 8))).bind(13, 13, 1)
    with pytest.raises(ValueError, match="here there are 8 queries and 9 keys"):
        (Causal() & Grid.from_array(np.ones((8, 8)))).bind(8, 9, 1)


EXPECTED = [[True, False, False], [True, True, False]]


@pytest.mark.parametrize(
    "text",
    [
        "1,0,0\n1,1,0\n",
        "1, 0, 0\r\n1, 1, 0",
        "1;0;0\n1;1;0",
        "1\t0\t0\n1\t1\t0\n\n",
        "1 0 0\n  1   1 0 ",
        "\n\n100\n110",
        "x..\nxx.",
        "X . .\nX x .",
        "true,false,false\nTrue,TRUE,False",
        '"1","0","0"\n"1","1","0"',
        "1.0 0.0 -0.0\n1e0 1 0",
        "\ufeff1,0,0\n1,1,0",
        "1,0,0\r1,1,0\r",
    ],
)
def test_a_text_of_zeros_and_ones_is_a_grid(text):
    assert Grid.read(None, text) == Grid.read("grid.csv", text.encode()) == Grid.from_array(EXPECTED)


@given(MATRIX, st.sampled_from([",", "\t", " ", ";"]))
def test_what_numpy_saves_is_read(matrix, delimiter):
    array = np.array(matrix)
    for saved in (array, array.astype(np.float32), array.astype(">i8"), np.asfortranarray(array)):
        text, binary = io.StringIO(), io.BytesIO()
        np.savetxt(text, saved.astype(float), delimiter=delimiter)
        np.save(binary, saved)
        assert Grid.read(None, text.getvalue()) == Grid.from_array(array)
        assert Grid.read("mask.npy", binary.getvalue()) == Grid.read(None, binary.getvalue()) == Grid.from_array(array)


def header(said):
    """A .npy file whose header says this, and nothing after it."""
    said = said.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(said).to_bytes(2, "little") + said


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        (None, "", "There are no cells here."),
        (None, "\n \n", "There are no cells here."),
        ("a.csv", b"", "There are no cells here."),
        (None, "1,0\n1", "Line 2 has 1 cell, but line 1 has 2. Give every line the same number."),
        (None, "\n1 0\n\n1 0 0", "Line 4 has 3 cells, but line 2 has 2."),
        (None, "1,0\n1,2", "Line 2, column 2 holds “2”. A cell is 0 or 1"),
        (None, "1,0\n1,", "Line 2, column 2 is empty."),
        (None, "a,b\n1,0", "Line 1, column 1 holds “a”. A cell is 0 or 1; leave out headings"),
        (None, "1,0.5", "Line 1, column 2 holds “0.5”."),
        (None, "1,nan", "Line 1, column 2 holds “nan”."),
        (None, "1,inf", "Line 1, column 2 holds “inf”."),
        (None, "1,10", "Line 1, column 2 holds “10”."),
        (None, "1," + "z" * 90, "holds “" + "z" * 39 + "…”."),
        (None, "1,“\x07", "holds “��”."),
        (None, "\n".join(["1 0"] * 513), "Line 513 is beyond the 512 rows and 512 columns"),
        (None, "1" * 513, "Line 1 is beyond the 512 rows and 512 columns"),
        (None, "1," + " " * LINE + "1", "Line 1 is beyond"),
        (None, "1" * (MOST_FILE_BYTES + 1), "This is more than 8 MB."),
        ("a.npy", b"1,0\n1,1", "The header of this .npy file cannot be read: it was damaged or cut off."),
        ("a.csv", b"\xff\xfe1", "This file is neither text in UTF-8 nor a .npy file."),
        (None, npy(np.ones((2, 2)))[:40], "The header of this .npy file cannot be read: "),
        (None, npy(np.ones((2, 2)))[:-1], "This .npy file says that its shape is “(2, 2)”, but fewer numbers follow."),
        (None, npy(np.array([[1, 2]])), "Row 1, column 2 holds “2”."),
        (None, npy(np.array([[1, np.nan]])), "Row 1, column 2 holds “nan”."),
        (None, npy(np.ones(4)), "this has the shape (4,). Choose one head of it."),
        (None, npy(np.ones((2, 2, 2))), "this has the shape (2, 2, 2)."),
        (None, npy(np.ones((2, 0))), "A grid has 1 to 512 rows and columns; this one has 2 × 0."),
        (None, npy(np.ones((513, 1))), "this one has 513 × 1."),
        (None, npy(np.array([["1", "0"]])), "This holds <U1, which are not cells of a grid."),
        (None, npy(np.array([[1j]])), "This holds complex128"),
        (None, npy(np.array([[{}]], dtype=object)), "This holds object"),
        (None, header("{'descr': '<f8', 'fortran_order': False, 'shape': (512, 512)}"), "fewer numbers follow"),
        (
            None,
            header("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999, 99999999)}"),
            "99999999 × 99999999",
        ),
        (None, header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 2)}"), "this one has -1 × 2"),
        (None, header("{'descr': '<f8', 'fortran_order': False}"), "cannot be read"),
        (None, header("(" * 3000), "cannot be read"),
        (None, b"\x93NUMPY\x09\x00" + b"x" * 90, "cannot be read"),
        (None, b"\x93NUMPY", "cannot be read"),
    ],
    ids=lambda x: repr(x)[:40],
)
def test_what_is_no_grid_is_refused_in_words(name, data, words):
    with pytest.raises(ValueError, match=re.escape(words)) as refused:
        Grid.read(name, data)
    assert len(str(refused.value)) < 300
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize(
    ("array", "words"),
    [
        ([[1, 0], [1]], "This is not a matrix."),
        ([], "this has the shape (0,)"),
        (None, "This holds object"),
        ([["1"]], "This holds <U1"),
        ([[2]], "Row 1, column 1 holds “2”."),
        ([[0, 1], [-1, 0]], "Row 2, column 1 holds “-1”."),
        (np.ones((513, 513)), "this one has 513 × 513."),
    ],
    ids=lambda x: repr(x)[:30],
)
def test_arrays_that_are_no_grid_are_refused_in_words(array, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        Grid.from_array(array)


@pytest.mark.parametrize("arguments", [(0, 1, 0), (1, 513, 0), (2, 2, 16), (2, 2, -1)])
def test_a_grid_has_as_many_cells_as_rows_and_columns_say(arguments):
    with pytest.raises(ValueError, match="A grid"):
        Grid(*arguments)


@given(st.binary(max_size=200) | st.binary(max_size=80).map(lambda more: b"\x93NUMPY\x01\x00" + more))
def test_any_bytes_are_a_grid_or_refused(data):
    for name in (None, "mask.npy", "mask.csv"):
        try:
            grid = Grid.read(name, data)
        except ValueError as error:
            said = str(error)
            assert said.endswith(".")
        else:
            assert parse(str(grid)) == grid


@given(st.text(st.sampled_from('01xX. ,;\t\n\r"true2e-'), max_size=60))
def test_any_text_is_a_grid_or_refused(text):
    try:
        grid = Grid.read(None, text)
    except ValueError as error:
        said = str(error)
        assert said.endswith(".")
    else:
        assert parse(str(grid)) == grid
