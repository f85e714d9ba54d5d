"""States as links open them."""

import numpy as np
import pytest

from attnviz.pages.scores.state import ScoresState
from attnviz.sources import Upload
from attnviz.sources.upload import File
from tests.support.array_files import npz


def test_what_no_link_has_stays_where_a_link_is_opened() -> None:
    file = File("vectors.npz", npz(query=np.ones((2, 3, 4)), key=np.ones((2, 5, 4))))
    state = ScoresState(source=Upload(file=file))
    with pytest.raises(ValueError, match="The uploaded file is not in the link"):
        state.link()
    opened = state.opened(state.link_with(head=1, pinned=0))
    assert (opened.source, opened.head, opened.pinned) == (state.source, 1, 0)
