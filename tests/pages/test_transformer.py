"""The Transformer page without a browser: every tab, what the changes do, and what a person or a link can bring."""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from html import unescape
from pathlib import Path

import pytest
import torch
from streamlit.testing.v1 import AppTest

from attnviz.formatting import percent
from attnviz.masks import Band, Full
from attnviz.models.interventions import Intervention
from attnviz.scores import Additive, Cosine, General
from attnviz.state.parts import title
from attnviz.state.transformer import SHORT, WHAT_IF, TransformerState
from attnviz.translator import EXAMPLES, Translation, TranslationStep, load
from attnviz.translator.encoder_decoder import HEADS, USE_LAYERS, USES
from attnviz.translator.live_training import LiveTraining, Status
from attnviz.translator.sentence_lengths import COMPARED, matching_words, shipped_accuracies
from attnviz.translator.weights import evaluation_sentences
from attnviz.ui.transformer import training_dynamics, what_if
from attnviz.ui.transformer.training import QUEUE, TRAINING
from attnviz.views.transformer import ABLATION_SENTENCES
from tests.support.app import contents, healthy, open_page

ROOT = Path(__file__).parents[2]
TABS = ("Three uses", "What if", "How attention forms", "In symbols", "Before attention", "Several heads")
CONTROLS = ("mask", "score", "normalizer")


page = partial(open_page, "transformer")


def what_if_page(**link: str | list[str]) -> AppTest:
    return page(tab="What if", **link)


def words(app: AppTest) -> list[list[tuple[str, str]]]:
    """The two translations, each a list of words and probabilities."""
    lists = [one.body for one in app.get("html") if "<ol class='attnviz-row attnviz-compared'" in one.body]
    return [
        [(unescape(word), number) for word, number in re.findall(r"<li[^>]*>([^<]*)<small>([^<]*)</small>", one)]
        for one in lists
    ]


def marked(app: AppTest) -> list[list[str]]:
    lists = [one.body for one in app.get("html") if "<ol class='attnviz-row attnviz-compared'" in one.body]
    return [[unescape(word) for word in re.findall(r"<li class='attnviz-differs'[^>]*>([^<]*)<", one)] for one in lists]


def expected(interventions: Sequence[Intervention], text: str = EXAMPLES[0], variant: str = "scaled dot") -> list[str]:
    return [step.word for step in load(variant).translate(text, interventions).steps]


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_opens(tab: str) -> None:
    app = healthy(page(tab=tab, similarity="Additive"))
    assert not app.error
    assert app.get("bidi_component")


def test_an_unknown_word_is_named_and_the_example_stays() -> None:
    app = healthy(page(english="the small zebra sleeps ."))
    assert "zebra" in contents(app)
    assert "la petite voiture rouge" in re.sub("<[^>]*>", "", french(app))


def test_an_earlier_translation_says_which_sentence_it_is_of() -> None:
    app = page()
    assert "This is the translation of" not in contents(app)
    app.text_input(key="english").set_value("the zebra sees the gnu .").run()
    assert "“zebra” and “gnu”" in contents(healthy(app))
    assert "attnviz-old'>This is the translation of <b>the small red car is beautiful .</b>" in french(app)
    app.text_input(key="english").set_value("the cat sleeps .").run()
    assert "attnviz-old" not in french(healthy(app))


def test_the_caption_of_each_use_says_where_its_vectors_come_from() -> None:
    said = contents(page())
    assert "Queries come from the decoder, keys and values from the encoder." in said
    assert "Queries, keys and values come from the encoder." in said
    assert "In the framed row “petite” goes in, and “voiture” comes out." in said


def test_both_translations_are_compared_with_the_right_one() -> None:
    app = healthy(page(tab="Before attention"), charts=3)
    found = [load(variant).translate(EXAMPLES[0]) for variant in COMPARED]
    assert [[word for word, _ in one] for one in words(app)] == [[step.word for step in one.steps] for one in found]
    assert found[0].french == found[0].reference.french
    assert found[1].text == "la jolie voiture calme est petite."
    assert marked(app) == [[], ["jolie", "calme", "petite"]]
    said, right = contents(app), found[0].reference.french
    both = [len(matching_words(one.french, right)) for one in found]
    assert f"With attention {both[0]} of {len(right)} words are right, with one vector {both[1]}." in said
    shares = [next(one for one in line if one.length == 7).sentences for line in shipped_accuracies().values()]
    assert f"{shares[0]:.0%} are right in every word with attention, and {shares[1]:.0%} with one vector" in said
    unknown = contents(page(tab="Before attention", english="cat the sleeps red"))
    assert "Of test sentences with 5 words" in unknown
    assert "words are right, with one vector" not in unknown


def test_what_one_head_does_that_another_does_not() -> None:
    negated = "the old king does not see the young birds ."
    app = healthy(page(tab="Several heads", english=negated))
    heads = [(layer, head) for layer in USE_LAYERS["decoder"] for head in range(HEADS)]
    texts = {at: load().translate(negated, [Intervention(ablated=(at,))]).text for at in heads}
    changed = {at: text for at, text in texts.items() if text != load().translate(negated).text}
    assert changed == {(2, 2): "le vieux roi ne voit les jeunes oiseaux."}  # without it “pas” is missing
    exact = load().exact_match(evaluation_sentences("test", ABLATION_SENTENCES), [Intervention(ablated=((2, 2),))])
    said = contents(app)
    assert "The translation changes without layer 0, head 2." in said
    assert said.count("<tr class='attnviz-changes'>") == 1
    assert f"<td>{percent(exact, 2)}</td>" in said
    agreement = contents(page(tab="Several heads", heads_of="Encoder self-attention"))
    assert "<mark>les</mark> <mark>petits</mark> voiture rouge est belle." in agreement
    assert "The translation changes without layer 1, head 3." in agreement


def french(app: AppTest) -> str:
    return next(one.body for one in app.get("html") if "attnviz-translation" in one.body)


def test_a_sentence_opens_where_the_order_of_words_differs() -> None:
    app = healthy(page())
    assert "<mark>voiture</mark>" in french(app)  # before “rouge”: “the small red car”
    for english, word in (
        (EXAMPLES[1], "voit"),  # “ne voit pas”: “does not see”
        (EXAMPLES[5], "reine"),  # word for word, but for words that are two: in the middle
        ("the car the car .", "voiture"),  # nothing that the grammar knows: in the middle
    ):
        app.text_input(key="english").set_value(english).run()
        assert f"<mark>{word}</mark>" in french(healthy(app)), french(app)
    app.text_input(key="english").set_value(EXAMPLES[0]).run()
    assert "<mark>voiture</mark>" in french(healthy(app))
    assert "word" not in app.query_params


def test_the_chosen_word_stays_until_another_sentence_is_typed() -> None:
    app = page(word="6")
    assert "<mark>belle</mark>" in french(healthy(app))
    app.selectbox(key="similarity").select("Additive").run()
    assert "<mark>belle</mark>" in french(healthy(app))
    app.text_input(key="english").set_value(EXAMPLES[1]).run()
    assert "<mark>voit</mark>" in french(healthy(app))


def test_what_is_to_come_is_pale_and_hidden_only_while_it_plays() -> None:
    app = page()
    assert "<i>belle</i>" in french(healthy(app))
    app.button(key="word-play").click().run()
    assert "<i aria-hidden='true'>belle</i>" in french(healthy(app))
    app.button(key="word-play").click().run()
    assert "<i>belle</i>" in french(healthy(app))


def test_a_pinned_word_of_the_encoder_is_let_go_with_its_sentence() -> None:
    app = page(**{"encoder-row": "2 · red"})
    assert _pinned(healthy(app), "encoder-map") == 2
    app.text_input(key="english").set_value("the small red bird is beautiful .").run()
    assert _pinned(healthy(app), "encoder-map") == 2
    app.text_input(key="english").set_value("the small cat sleeps .").run()
    assert _pinned(healthy(app), "encoder-map") is None
    assert "encoder-row" not in app.query_params


def _pinned(app: AppTest, key: str) -> int | None:
    """The row that a chart marks."""
    sent = (one.proto.bytes for one in app.get("bidi_component"))
    headers = (json.loads(one[8 : 8 + int.from_bytes(one[:8], "little")]) for one in sent)
    return next(one["pinned"] for one in headers if one["key"] == key)


def test_a_word_that_comes_many_times_is_counted_once() -> None:
    right = ("la", "voiture", "est", ".")
    written = ("la", "la", *["."] * 9)  # one of them stands where one should
    made = Translation(("the", "car", "is", "."), tuple(TranslationStep(word, torch.zeros(1), ()) for word in written))
    assert training_dynamics.marked_words(made, right, 0).endswith(
        ">la <s>la</s><s>.</s> <small>× 9</small></span></p>"
    )


def test_nothing_is_changed_until_somebody_changes_it() -> None:
    app = healthy(what_if_page())
    assert words(app)[0] == words(app)[1]
    assert "Nothing is changed." in contents(app)
    assert app.pills(key="try").value == "Everything as trained"


@pytest.mark.parametrize("variant", ["scaled dot", "additive"])
def test_every_preset_gives_what_the_library_gives(variant: str) -> None:
    app, trained = what_if_page(similarity=variant.capitalize()), expected([], variant=variant)
    for name, values in what_if.translator_presets(load(variant)).items():
        app.pills(key="try").select(name).run()
        state = TransformerState(similarity=variant, tab=WHAT_IF, **values)
        made = load(variant).translate(EXAMPLES[0], state.interventions)
        shown = words(healthy(app))
        assert [word for word, _ in shown[0]] == trained
        assert [word for word, _ in shown[1]] == [step.word for step in made.steps]
        assert [float(number) for _, number in shown[1]] == pytest.approx(
            [step.probability for step in made.steps], abs=0.006
        )
        assert app.pills(key="try").value == name
        looked_at = [use for use in USES if not state.intervention(use).is_empty]
        assert not looked_at or app.session_state["change"] == SHORT[looked_at[0]]


def test_presets_are_instructive() -> None:
    """Some break the translation of some examples, some leave them all right, as trained."""
    translator = load()
    presets = what_if.translator_presets(translator)
    interventions = {name: TransformerState(tab=WHAT_IF, **values).interventions for name, values in presets.items()}
    right = {
        name: [translator.translate(text, changes).alignment is not None for text in EXAMPLES]
        for name, changes in interventions.items()
    }
    assert all(right["Everything as trained"])
    assert all(right["Let the decoder see the future"])
    assert all(right["Ablate the head that aligns best"])
    breaking = set(right) - {name for name, all_right in right.items() if all(all_right)}
    assert breaking == {
        "Show the decoder its last word only",
        "Cut the encoder to a window",
        "Ablate all heads that align",
        "Encoder–decoder: temperature 5",
        "Encoder–decoder: cosine",
    }


def test_the_decoder_sees_the_future_and_stays_right() -> None:
    app = healthy(what_if_page(**{"decoder-mask": "Full"}))
    before, after = words(app)
    assert (
        [word for word, _ in before]
        == [word for word, _ in after]
        == expected([Intervention(Full(), layers=USE_LAYERS["decoder"])])
    )
    assert "The translation stays the same; its probabilities and maps change." in contents(app)
    assert "its last row has no later words to see" in contents(app)
    assert marked(app) == [[], []]
    assert "has no later words" not in contents(what_if_page(**{"decoder-mask": "Sliding window"}))
    assert "has no later words" not in contents(what_if_page(**{"encoder-mask": "Causal"}))


def test_a_mask_that_hides_nothing_changes_nothing() -> None:
    app = healthy(what_if_page(**{"decoder-mask": "Sliding window", "decoder-mask.size": "100"}))
    assert "The translation stays the same, and so do its probabilities." in contents(app)


def test_words_that_differ_are_marked() -> None:
    app = healthy(what_if_page(**{"encoder-mask": "Band", "encoder-mask.width": "1"}))
    before, after = expected([]), expected([Intervention(Band(1), layers=USE_LAYERS["encoder"])])
    assert [[word for word, _ in one] for one in words(app)] == [before, after]
    kept_before = [word for word in before if word not in marked(app)[0]]
    kept_after = [word for word in after if word not in marked(app)[1]]
    assert kept_before == kept_after
    assert set(before) - set(after) <= set(marked(app)[0])
    assert set(after) - set(before) <= set(marked(app)[1])
    assert "The translation changes where words are marked." in contents(app)


def test_menus_of_masks_and_normalizers_change_the_translator() -> None:
    app = what_if_page()
    for part, name in (("mask", "Prefix LM"), ("mask", "Causal"), ("normalizer", "Sink"), ("normalizer", "Softmax")):
        app.selectbox(key=f"decoder-{part}").select(name).run()
        assert ("Nothing is changed." in contents(healthy(app))) == (name in ("Causal", "Softmax"))


def test_scores_with_weights_of_their_own_are_only_where_they_were_trained() -> None:
    for variant, kind in (("general", General), ("additive", Additive)):
        app = healthy(what_if_page(similarity=variant.capitalize()))
        menus = {use: app.selectbox(key=f"{use}-score") for use in ("encoder", "cross")}
        assert not {title(General), title(Additive)} & {one for menu in menus.values() for one in menu.options}
        assert menus["cross"].value == "As in the model"
        assert isinstance(load(variant).translate(EXAMPLES[0]).layers(use="cross")[0].mechanism.score, kind)
        assert "Nothing is changed." in contents(app)
        menus["cross"].select("Dot").run()
        app.pills(key="try").select("Everything as trained").run()
        assert healthy(app).selectbox(key="cross-score").value == "As in the model"


def test_another_translator_is_as_it_was_trained_too() -> None:
    app = what_if_page()
    for variant in ("Additive", "General", "Dot", "Scaled dot"):
        app.selectbox(key="similarity").select(variant).run()
        assert "Nothing is changed." in contents(healthy(app)), variant
    app.selectbox(key="cross-score").select("Cosine").run()
    app.selectbox(key="similarity").select("Dot").run()
    before, after = words(healthy(app))
    assert [word for word, _ in before] == expected([], variant="dot")
    assert [word for word, _ in after] == expected(
        [Intervention(score=Cosine(), layers=USE_LAYERS["cross"])], variant="dot"
    )


def test_a_refused_sentence_leaves_the_last_good_one_to_each_translator() -> None:
    app = page(tab="In symbols", **{"symbols-of": "Encoder–decoder attention"})
    app.text_input(key="english").set_value("the zebra sleeps .").run()
    app.selectbox(key="similarity").select("Additive").run()
    formulas = healthy(app).get("latex") or app.latex
    assert "tanh" in " ".join(one.value for one in formulas)


def waiting_behind() -> LiveTraining:
    training, first = LiveTraining("dot", 1), LiveTraining("dot", 2)
    QUEUE._queue[:] = [first, training]
    QUEUE._last_alive.update({first: 0, training: 0})
    return training


def ended(status: Status, problem: str = "") -> LiveTraining:
    training = LiveTraining("dot", 1)
    training.status, training.problem = status, problem
    return training


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (waiting_behind, "Somebody else is training: about 40 s are left. You are next."),
        (lambda: ended("left"), "Stopped, because its page was closed for a while."),
        (lambda: ended("stopped"), "Stopped: dot, seed 1."),
        (lambda: ended("failed", "The training broke off after step 0."), "The training broke off after step 0."),
    ],
)
def test_who_trains_is_told_how_it_stands(make: Callable[[], LiveTraining], sentence: str) -> None:
    app = page(tab="How attention forms", training="Train in this session")
    app.session_state[TRAINING.name] = training = make()
    assert sentence in contents(healthy(app.run()))
    assert [one.label for one in app.button if one.key == "train-stop"] == ["Leave the queue"] * (not training.is_over)
    QUEUE._queue.clear()


def test_a_refused_change_is_said_and_the_last_good_one_stays() -> None:
    app = what_if_page(**{"encoder-mask": "Longformer"})
    good = words(healthy(app))
    app.number_input(key="encoder-mask.window").set_value(3).run()
    assert "needs an even window" in contents(healthy(app))
    assert words(app) == good
    app.text_input(key="english").set_value(EXAMPLES[3]).run()
    assert "needs an even window" in contents(healthy(app))
    assert [word for word, _ in words(app)[1]] == expected([], EXAMPLES[3])
    app.number_input(key="encoder-mask.window").set_value(2).run()
    assert not app.error
    assert words(app)[1] != words(app)[0]


def test_a_refused_change_in_a_link_leaves_what_was_trained() -> None:
    app = healthy(what_if_page(**{"decoder-mask": "Longformer", "decoder-mask.longformer.global_positions": "two"}))
    assert app.error
    assert [word for word, _ in words(app)[1]] == expected([])


@pytest.mark.parametrize("tab", TABS)
def test_a_link_with_nonsense_opens_every_tab(tab: str) -> None:
    names = ("step", "trained-step", "training", "map", "train-seed", "train-similarity", "symbols-of", "encoder-row")
    healthy(page(**dict.fromkeys(names, "1e999") | {"tab": tab}))


@pytest.mark.parametrize("value", ["", "<b>"])
def test_a_link_with_nonsense_opens(value: str) -> None:
    names = ["change", "try", "similarity", "word", "english", "tab"]
    for use in ("encoder", "decoder", "cross"):
        names += [f"{use}-{part}" for part in (*CONTROLS, "off-0", "off-1", "head")]
        names += [f"{use}-normalizer.temperature", f"{use}-score.scale", f"{use}-mask.align"]
    assert words(healthy(page(**dict.fromkeys(names, value) | {"tab": "What if"})))


def test_the_chosen_head_carries_over_between_tabs() -> None:
    app = what_if_page()
    app.selectbox(key="decoder-head").select("Layer 0, head 2").run()
    app.session_state["part"] = "Three uses"
    assert healthy(app.run()).selectbox(key="decoder-head").value == "Layer 0, head 2"
    app.selectbox(key="decoder-head").select("Layer 1, head 0").run()
    app.session_state["part"] = "What if"
    assert healthy(app.run()).selectbox(key="decoder-head").value == "Layer 1, head 0"


def test_changes_are_kept_while_another_tab_or_page_is_open() -> None:
    app = what_if_page(**{"encoder-mask": "Band", "encoder-mask.width": "1"})
    shown = words(app)
    app.session_state["part"] = "Three uses"
    app.run()
    app.session_state["part"] = "What if"
    assert words(healthy(app.run())) == shown
    app.switch_page("../../pages/lookup.py").run()
    app.switch_page("../../pages/transformer.py").run()
    assert words(healthy(app)) == shown


def test_the_changed_translation_is_at_its_end_with_the_other() -> None:
    link = {"decoder-mask": "Sinks", "english": EXAMPLES[5]}
    last = str(len(expected([], EXAMPLES[5])))
    assert [end for _, end in _current(what_if_page(**link, word=last))] == [True, True]
    [(before, first), (after, second)] = _current(what_if_page(**link, word="5"))
    assert (before, first, second) == (after, False, False) == (4, False, False)


def _current(app: AppTest) -> list[tuple[int, bool]]:
    """In each translation the word that is looked at, and whether it is the last."""
    lists = [
        re.findall(r"<li[^>]*>", one.body)
        for one in app.get("html")
        if "<ol class='attnviz-row attnviz-compared'" in one.body
    ]
    at = [next(i for i, item in enumerate(items) if "aria-current" in item) for items in lists]
    return [(i, i == len(items) - 1) for i, items in zip(at, lists, strict=True)]


def test_what_a_head_does_is_said_under_its_map() -> None:
    app = healthy(what_if_page(**{"cross-off-0": ["0"], "change": "Encoder–decoder", "cross-head": "Layer 0, head 0"}))
    assert "Scores: Scaled dot. Every query sees every key. Weights: Softmax." in contents(app)
    assert "This head is ablated" in contents(app)
    app.selectbox(key="cross-head").select("Layer 0, head 1").run()
    assert "This head is ablated" not in contents(app)
    app.number_input(key="cross-normalizer.temperature").set_value(3.0).run()
    assert "Softmax with temperature 3." in contents(app)
