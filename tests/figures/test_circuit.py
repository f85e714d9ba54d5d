"""The drawing of opened terms."""

from attnviz.figures.circuit import MOST_WORDS, DrawnNode, circuit_drawing


def drawn(words: int, *nodes: DrawnNode):
    return circuit_drawing(nodes, [f"w{i}" for i in range(words)], [f"layer {i}" for i in range(4)], words - 1, "+1.00")


def test_terms_of_one_place_are_drawn_once_with_all_their_sentences() -> None:
    head = DrawnNode("3.1", "head", 1.0, 4, 3, True, 1)
    twice = [DrawnNode("MLP 0", text, 0.5, 1, 0, parent=0) for text in ("first", "second")]
    chart = drawn(5, head, *twice)
    assert chart.spec.sentences == ("first; second", "head")
    assert len(chart.figure.data) == 2 + 4  # the terms, the number, and an arc for each node and for what was read


def test_of_many_words_those_with_a_term_are_shown() -> None:
    nodes = [DrawnNode("3.1", "", 1.0, 99, 3, True, 17), DrawnNode("MLP 0", "", 0.5, 17, 0, parent=0)]
    assert drawn(100, *nodes).figure.layout.xaxis.ticktext == ("w17", "w99")
    assert drawn(100, *nodes).figure.layout.yaxis.ticktext == ("words", "layer 0", "layer 3")
    assert len(drawn(MOST_WORDS).figure.layout.xaxis.ticktext) == MOST_WORDS


def test_arcs_are_as_wide_as_shares_and_in_two_colors() -> None:
    nodes = [DrawnNode("3.1", "", 1.0, 1, 3, True), DrawnNode("3.2", "", -0.5, 1, 3, True)]
    (_, first, second, _) = drawn(2, *nodes).figure.data
    assert first.line.width == 2 * second.line.width
    assert first.line.color != second.line.color


def test_a_question_about_where_a_head_looks_is_dashed() -> None:
    chart = drawn(2, DrawnNode("3.1", "", 1.0, 1, 3, True, 0, question="key"))
    assert [trace.line.dash for trace in chart.figure.data[1:3]] == ["dash", "dash"]
