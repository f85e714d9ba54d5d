"""Links between Why and Effects: both ask about the same head, text and tokens."""

import pytest

from attnviz.models import MINILM, TRANSLATOR
from attnviz.pages.effects.links import effects_link, head_effect_link, term_link
from attnviz.pages.effects.state import DIFFERENCE, LOGIT, LOSS, EffectsState
from attnviz.pages.why.answer import why_answer
from attnviz.pages.why.links import text_of_model
from attnviz.pages.why.state import WhyState

CAPITAL = ("text", "The capital of France is")


def opened(kind, link):
    """The state of a link, all of which is taken."""
    state = kind.read(link)
    assert (state.problem, state.refused) == ("", ())
    return state


@pytest.mark.parametrize(
    ("link", "head"),
    [
        ((), (23, 3)),
        ((CAPITAL, ("after", "2 · ␣of"), ("says", "London"), ("rather-than", "the average token")), (4, 8)),
        ((("why-model", TRANSLATOR), ("written", "la petite voiture"), ("after", "2 · petite")), (3, 1)),
    ],
)
def test_a_head_of_why_is_that_of_effects(link, head) -> None:
    asked = opened(WhyState, link)
    effects = opened(EffectsState, head_effect_link(asked, head))
    assert (effects.source, effects.head, effects.measure) == (asked.source, head, DIFFERENCE)
    assert (effects.position, effects.tokens) == (asked.position, asked.tokens)
    shown = why_answer(opened(WhyState, term_link(effects, head, asked.position)))
    assert (shown.term.layer, shown.term.head, shown.term.position) == (*head, asked.position)
    assert shown.attribution.total == pytest.approx(why_answer(asked).attribution.total)


def test_other_questions_keep_the_text_alone() -> None:
    looks = opened(WhyState, (("why-model", MINILM),))
    assert opened(EffectsState, head_effect_link(looks, (3, 2))).source == looks.source
    loss = EffectsState(text=CAPITAL[1], measure=LOSS)
    assert dict(term_link(loss, (2, 1), 4)) == {"text": CAPITAL[1], "term": "2.1.4"}
    assert "rather-than" not in dict(term_link(EffectsState(measure=LOGIT), (2, 1), 4))


def test_the_likeliest_tokens_of_what_if_are_measured() -> None:
    asked = WhyState.read((CAPITAL,))
    paris, other = asked.tokens
    effects = opened(EffectsState, effects_link(text_of_model(asked.source).token_link(paris, other)))
    assert (effects.source, effects.tokens, effects.head) == (asked.source, asked.tokens, None)
