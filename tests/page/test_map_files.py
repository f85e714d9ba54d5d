"""What is taken away holds what was shown, and can be opened safely."""

import csv
import io

import numpy as np

from attnviz.figures import heatmap
from attnviz.page.map_files import as_csv, as_npz, figures_page
from attnviz.sources.files import read_file

WEIGHTS = np.array([[1, np.nan, np.nan], [0.25, 0.5, 0.25]], dtype="f4")
QUERIES, KEYS = ("=1+1", "b"), ("<s>", 'a,"b', "שלום")


def test_csv_has_keys_as_header_and_empty_cells_where_not_allowed() -> None:
    table = list(csv.reader(io.StringIO(as_csv(WEIGHTS, QUERIES, KEYS).decode("utf-8-sig"))))
    assert table == [["", *KEYS], ["'=1+1", "1.0", "", ""], ["b", "0.25", "0.5", "0.25"]]


def test_npz_can_be_uploaded_again() -> None:
    contents = read_file("attention.npz", as_npz(WEIGHTS, QUERIES, KEYS))
    np.testing.assert_array_equal(contents.arrays["weights"], np.nan_to_num(WEIGHTS))
    assert contents.tokens == {"tokens": QUERIES, "key_tokens": KEYS}
    assert set(contents.arrays) == {"weights"}


def test_html_is_whole_and_cannot_be_broken_out_of() -> None:
    tokens = ("</script><script>alert(1)</script>", "b")
    html = figures_page([(tokens[0], heatmap(WEIGHTS[:, :2], tokens, tokens).figure)])
    assert "plotly.js v" in html
    assert "alert(1)</script>" not in html
    assert 'src="http' not in html
