"""Lists of texts, which several pages have."""

from attnviz.page.block_html import block_html
from attnviz.page.blocks import Listing, every_block
from attnviz.page.text_list_blocks import SHOWN, ordered_texts
from attnviz.pages.effects.state import EffectsState
from attnviz.pages.why.state import WhyState


def test_pages_have_one_field_for_their_lists() -> None:
    why, effects = WhyState.many, EffectsState.many
    assert (why.parameter, why.label, why.about) == (effects.parameter, effects.label, effects.about)
    assert why.opening(WhyState()) == effects.opening(EffectsState())


def test_texts_in_an_order_are_numbered_from_the_first_to_the_last() -> None:
    items = [f"text {number}" for number in range(1, 21)]
    lists = [block for block in every_block(ordered_texts(items, "texts")) if isinstance(block, Listing)]
    assert [item for each in lists for item in each.items] == items
    assert [each.first for each in lists] == [1, SHOWN + 1, 21 - SHOWN]
    assert "start" not in (block_html(lists[0], lambda _anchor: "") or "")
    assert f"start='{SHOWN + 1}'" in (block_html(lists[1], lambda _anchor: "") or "")
    assert len([*ordered_texts(items[: 2 * SHOWN], "texts")]) == 1
