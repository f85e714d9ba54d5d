"""Addresses of the page with another trail, term or question."""

from collections.abc import Sequence

from attnviz.attribution.sum_term import SumTerm, format_term
from attnviz.attribution.trail import TrailStep, format_trail
from attnviz.link import Link
from attnviz.state.why import WhyState
from attnviz.ui.link_state import own_address

OWN = tuple(field.parameter for field in WhyState.fields)
OPENED = (WhyState.trail.parameter, WhyState.term.parameter)


def trail_address(trail: Sequence[TrailStep]) -> str:
    """Returns the address of the sum at the end of another trail."""
    return own_address("why", OPENED, ((WhyState.trail.parameter, format_trail(trail)),) if trail else ())


def term_address(term: SumTerm) -> str:
    """Returns the address of the same sum with another term."""
    return own_address("why", OPENED[1:], ((WhyState.term.parameter, format_term(term)),))


def question_address(link: Link) -> str:
    """Returns the address of another question."""
    return own_address("why", OWN, link)
