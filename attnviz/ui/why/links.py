"""Addresses of the page with another trail, term or question."""

from collections.abc import Sequence

from attnviz.attribution.sum_term import SumTerm, format_term
from attnviz.attribution.trail import TrailStep, format_trail
from attnviz.link import Link, page_address
from attnviz.state.why import WhyState
from attnviz.ui import html
from attnviz.ui.link_state import link_parameters

OWN = tuple(field.parameter for field in WhyState.fields)
OPENED = (WhyState.trail.parameter, WhyState.term.parameter)


def trail_address(trail: Sequence[TrailStep]) -> str:
    """Returns the address of the sum at the end of another trail."""
    return _address(OPENED, ((WhyState.trail.parameter, format_trail(trail)),) if trail else ())


def term_address(term: SumTerm) -> str:
    """Returns the address of the same sum with another term."""
    return _address(OPENED[1:], ((WhyState.term.parameter, format_term(term)),))


def question_address(link: Link) -> str:
    """Returns the address of another question."""
    return _address(OWN, link)


def anchor(text: object, address: str, **attributes: object) -> html.Markup:
    """Returns a link that opens in place."""
    return html.element("a", text, href=address, **attributes)


def _address(dropped: Sequence[str], added: Link) -> str:
    kept = [(name, value) for name, value in link_parameters() if name not in dropped]
    return f"./{page_address('why', [*kept, *added])}"
