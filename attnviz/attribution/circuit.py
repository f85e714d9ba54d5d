"""The terms of a sum, and of the sums that they open, as a tree."""

from collections import deque
from dataclasses import dataclass

from attnviz.attribution.attribution import Attribution, WriterShare
from attnviz.attribution.trail import TrailStep

LEAST_SHARE = 0.05  # of the number, or of its largest term if that is larger
DEPTH = 5  # sums, one below the other
MOST_OPENED = 16  # sums
MOST_NODES = 200  # of a sum whose terms are all 0 or alike each is large


@dataclass(frozen=True)
class CircuitNode:
    """A term, or of a head what it carries from one source. `parent` is the index of the node whose value it wrote, and
    None where it wrote to the number itself."""

    term: WriterShare
    source: int | None = None
    parent: int | None = None


def circuit(attribution: Attribution, least: float = LEAST_SHARE, depth: int = DEPTH) -> list[CircuitNode]:
    """Returns the terms of at least a share `least` of the size of a sum, and those of the values that heads carry,
    `depth` sums deep; parents come first.

    At most MOST_OPENED values are opened, the earliest first, and at most MOST_NODES terms are returned. Heads whose
    weights are not known are not opened.
    """
    nodes: list[CircuitNode] = []
    bound, opened = least * size(attribution), 0
    sums: deque[tuple[Attribution, int | None, int]] = deque([(attribution, None, 1)])
    while sums:
        current, parent, level = sums.popleft()
        for term in current.largest(len(current.terms)):
            if abs(term.share) < bound:
                break
            for source, share in _sources(current, term):
                if abs(share) < bound:
                    continue
                if len(nodes) == MOST_NODES:
                    return nodes
                nodes.append(CircuitNode(term._replace(share=share), source, parent))
                if source is not None and level < depth and opened < MOST_OPENED:
                    opened += 1
                    sums.append((step_into(term, source).attribution(current), len(nodes) - 1, level + 1))
    return nodes


def size(attribution: Attribution) -> float:
    """Returns the absolute value of a number, or of its largest term if that is larger."""
    return max(abs(attribution.total), *(abs(term.share) for term in attribution.largest(1)))


def step_into(term: WriterShare, source: int) -> TrailStep:
    """Returns the step that opens what a head carries from a source."""
    if term.layer is None or term.head is None:
        raise ValueError("Only a head reads a source.")
    return TrailStep("value", term.layer, term.head, term.position, source)


def _sources(attribution: Attribution, term: WriterShare) -> list[tuple[int | None, float]]:
    """Returns the sources of a term with their shares; of a term that is not opened None, with its own."""
    if term.layer is None or term.head is None or not attribution.knows_weights(term.layer):
        return [(None, term.share)]
    return list(enumerate(attribution.sources(term.layer, term.head, term.position).tolist()))
