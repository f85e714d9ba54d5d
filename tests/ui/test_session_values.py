"""Values of a session, and the events of its components."""

from attnviz.ui.session_values import event_callback, write_widget


def test_an_event_of_a_page_that_is_left_calls_nothing() -> None:
    reported: list[object] = []
    call = event_callback("a component", "click", reported.append)
    call()
    assert reported == []
    write_widget("a component", {"click": {"row": 1}})
    call()
    assert reported == [{"row": 1}]
