"""Opened terms: the tree of all large ones, and trails in links."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from attnviz.attribution import Attribution, LogitDifference, Score, attribute, circuit
from attnviz.attribution.circuit import MOST_NODES
from attnviz.attribution.sum_term import SumTerm, format_term, parse_term
from attnviz.attribution.trail import MOST_STEPS, TrailStep, format_trail, parse_trail
from tests.support.architectures import GROUPED

numbers = st.integers(0, 999)
steps = st.builds(TrailStep, st.sampled_from(["value", "key", "query"]), *[numbers] * 4)
terms = st.one_of(
    st.none(),
    st.builds(SumTerm, numbers, numbers, numbers),
    st.builds(SumTerm, numbers, numbers),
    st.builds(SumTerm, numbers, stack=st.sampled_from(["", "encoder", "decoder"])),
)


@pytest.fixture(scope="module")
def attribution() -> Attribution:
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**GROUPED, initializer_range=0.3)).eval()
    return attribute(model, {"input_ids": torch.tensor([[5, 9, 11, 7, 30, 2]])}, LogitDifference(5, 7))


def test_a_tree_has_all_large_terms_and_what_heads_read(attribution) -> None:
    least = 0.1 * abs(attribution.total)
    nodes = circuit(attribution, least=0.1)
    roots = {(node.term[1:4], node.source): node.term.share for node in nodes if node.parent is None}
    expected = {}
    for term in attribution.terms:
        if abs(term.share) < least:
            continue
        sources = [(None, term.share)]
        if term.head is not None:
            sources = list(enumerate(attribution.sources(term.layer, term.head, term.position).tolist()))
        expected |= {(term[1:4], source): share for source, share in sources if abs(share) >= least}
    assert roots == pytest.approx(expected)
    children = [node for node in nodes if node.parent is not None]
    assert children
    for node in children:
        parent = nodes[node.parent]
        assert nodes.index(parent) < nodes.index(node)
        assert node.term.position == parent.source  # of a decoder: what was written where the head read
        place = parent.term.layer, parent.term.head, parent.term.position, parent.source
        carried = attribution.opened(*place) if parent.parent is None else None
        if carried is not None and node.term.head is None:
            own = carried.embeddings if node.term.layer is None else carried.mlps[node.term.layer]
            assert node.term.share == pytest.approx(float(own[node.term.position]), abs=1e-5)


def test_a_small_number_of_large_terms_has_few_in_its_tree(attribution) -> None:
    sums = [attribution.attribute(LogitDifference(5, other)) for other in range(20) if other != 5]
    small = min(sums, key=lambda each: abs(each.total))
    largest = abs(small.largest(1)[0].share)
    assert abs(small.total) < largest
    assert all(abs(node.term.share) >= 0.1 * largest for node in circuit(small, least=0.1))


def test_a_tree_is_as_deep_as_it_is_told(attribution) -> None:
    assert all(node.parent is None for node in circuit(attribution, least=0.1, depth=1))


def test_the_tree_of_a_number_near_zero_is_bounded(attribution) -> None:
    nodes = circuit(attribution.attribute(LogitDifference(5, 5)))
    assert len(nodes) == MOST_NODES
    assert all(node.parent is None or node.parent < i for i, node in enumerate(nodes))


@pytest.mark.parametrize("question", ["key", "query"])
def test_a_step_asks_why_a_head_looks_there(question, attribution) -> None:
    step = TrailStep(question, 1, 2, 5, 3)
    scores = torch.tensor([attribution.attribute(Score(1, 2, 5, key)).total for key in range(6)])
    assert step.attribution(attribution).total == pytest.approx(float(scores[3] - scores.mean()), abs=1e-4)


@given(st.lists(steps, max_size=MOST_STEPS))
def test_a_trail_is_read_as_it_is_written(trail) -> None:
    assert parse_trail(format_trail(trail)) == tuple(trail)


@given(terms)
def test_a_term_is_read_as_it_is_written(term) -> None:
    assert parse_term(format_term(term)) == term


@pytest.mark.parametrize("text", ["value.1.2.3", "look.1.2.3.4", "value.1.2.3.4-", "-".join(["key.1.2.3.4"] * 13), "0"])
def test_another_trail_is_refused(text) -> None:
    with pytest.raises(ValueError, match="not a list of at most 12 opened terms"):
        parse_trail(text)


@pytest.mark.parametrize("text", ["1.2", "mlp.1", "Word.1", "word.1234567", "1.2.3.4"])
def test_another_term_is_refused(text) -> None:
    with pytest.raises(ValueError, match="not a term of a sum"):
        parse_term(text)
