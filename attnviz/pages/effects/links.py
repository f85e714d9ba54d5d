"""Links between Why and Effects: what they ask of the same model after the same text."""

from attnviz.attribution.sum_term import SumTerm, format_term
from attnviz.base.link import Link
from attnviz.effects.ablation import Head
from attnviz.layer import head_option
from attnviz.pages.effects.state import LOSS, EffectsState
from attnviz.pages.why.state import WhyState

MANY = {WhyState.inspect.parameter, WhyState.many.parameter}
SHARED = ({field.parameter for field in WhyState.fields} & {field.parameter for field in EffectsState.fields}) - MANY


def effects_link(why: Link, head: str = "") -> Link:
    """Returns the link to Effects with the model, the text, the position and the tokens of a link to Why, and with a
    chosen head, by the name that the menu has for it."""
    kept = tuple((name, value) for name, value in why if name in SHARED)
    return (*kept, (EffectsState.head.parameter, head)) if head else kept


def head_effect_link(state: WhyState, head: Head) -> Link:
    """Returns the link to the effects of a head of Why, in the same texts."""
    layer, number = head
    link = state.link_with()
    many = tuple((name, value) for name, value in link if name in MANY)
    return (*effects_link(link, head_option(state.run.layers[layer], number)), *many)


def why_link(effects: Link) -> Link:
    """Returns the link to Why with the model, the text, the position and the tokens of a link to Effects."""
    return tuple((name, value) for name, value in effects if name in SHARED)


def term_link(state: EffectsState, head: Head, position: int) -> Link:
    """Returns the link to the term of a head at a position, in the sum that Why shows of what Effects measures."""
    after = {EffectsState.position.parameter} if state.measure == LOSS else set()  # which means another thing there
    kept = tuple((name, value) for name, value in state.link() if name in SHARED - after)
    return (*kept, (WhyState.term.parameter, format_term(SumTerm(position, *head))))
