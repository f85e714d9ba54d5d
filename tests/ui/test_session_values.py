"""Values of a session, and the events of its components."""

from attnviz.ui.session_values import event_callback, widget_callback, write_widget


def test_an_event_of_a_page_that_is_left_calls_nothing() -> None:
    reported: list[object] = []
    call = event_callback("a component", "click", reported.append)
    call()
    assert reported == []
    write_widget("a component", {"click": {"row": 1}})
    call()
    assert reported == [{"row": 1}]


def test_a_change_on_a_page_that_is_left_calls_nothing() -> None:
    """As of the menu of masks, when a link in place came with a choice: Streamlit has dropped the menu's value."""
    reported: list[object] = []
    call = widget_callback("a menu", reported.append)
    call()
    assert reported == []
    write_widget("a menu", "")
    call()
    assert reported == [""]
