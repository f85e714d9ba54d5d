"""Lessons: files good and broken, and every number that a shipped answer claims against the library."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import numpy as np
import pytest
import torch
from transformers import Swinv2Config
from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention

from attnviz.analysis.difference import mass_shift, outcome_counts, outcomes
from attnviz.analysis.head_maps import head_map, row_summary
from attnviz.base.formatting import number
from attnviz.base.text import EXAMPLE
from attnviz.effects.intervention_run import run_with_interventions
from attnviz.lessons.checks import Choice, Condition, NumberCheck, Tap
from attnviz.lessons.lesson_files import FOLDER, MOST_FILE_BYTES, read_lesson, read_lessons
from attnviz.masks.parser import parse
from attnviz.mechanism import Mechanism
from attnviz.models.interventions import Intervention
from attnviz.models.translator import translator
from attnviz.normalizers import Entmax, Hard, ReLU, Sigmoid, Softmax, Softpick, Sparsemax, TopK
from attnviz.pages.catalogue import BLOCKS
from attnviz.pages.lookup.dictionary import LookupResult, look_up, lookup_gradient, lookup_mechanism
from attnviz.pages.lookup.state import EXAMPLE as EXAMPLE_TABLE
from attnviz.pages.lookup.state import W
from attnviz.pages.steps.all_steps import compute_steps
from attnviz.pages.steps.matrix import cell_number
from attnviz.pages.steps.scaling import KEYS, measure_scaling
from attnviz.pages.steps.sentence_example import SentenceExample
from attnviz.pages.transformer.state import THREE_USES, TransformerState
from attnviz.scores import Cosine, Dot, General, ScaledDot
from attnviz.sources import Model
from attnviz.translator import load
from attnviz.translator.encoder_decoder import D_MODEL, USES, Use
from attnviz.translator.sentence_lengths import COMPARED, matching_words, shipped_accuracies
from tests.support import atlas_by_hand, effects_by_hand, language_model, pictures_by_hand, shares_by_hand

GOOD = """
title = "A title"
about = "One sentence."
page = "masks"
state = { mask-a = "full & ~band(2)", layers = 7, big = 0.5, paint-a = true, biases = ["ALiBi", "Soft cap"] }
questions = [{ ask = "Why?", answer = "Because." }]
"""
SHIPPED = sorted(FOLDER.glob("*.toml"))
GERMAN = [path for path in SHIPPED if path.stem.startswith("de-")]


def written(folder: Path, text: str | bytes, name: str = "one.toml") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_lesson_is_read_and_its_link_says_its_state(tmp_path):
    lesson = read_lesson(written(tmp_path, GOOD))
    assert (lesson.name, lesson.title, lesson.about) == ("one", "A title", "One sentence.")
    assert [(step.ask, step.answer, step.page) for step in lesson.steps] == [("Why?", "Because.", "masks")]
    link = urlsplit(lesson.link(1, ("present", "1")))
    assert link.path == "masks"
    assert parse_qsl(link.query) == [
        ("mask-a", "full & ~band(2)"),
        ("layers", "7"),
        ("big", "0.5"),
        ("paint-a", "true"),
        ("biases", "ALiBi"),
        ("biases", "Soft cap"),
        ("lesson", "one"),
        ("lesson-step", "1"),
        ("present", "1"),
    ]


STEPS = """
title = "A title"
about = "One sentence."
page = "masks"
state = { a = 1 }

[[steps]]
ask = "First?"
answer = "One."
tap = 2

[[steps]]
ask = "Second?"
answer = "Two."
number = "weight of it"
controls = ["a", "b"]

[[steps]]
ask = "Third?"
answer = "Three."
state = { b = 2 }
reach = "largest weight < 0.25"
holds = ["sum of weights = 1"]

[[steps]]
ask = "Fourth?"
answer = "Four."
page = "explore"
choose = ["x", "y"]
right = "y"
"""


def test_a_step_has_a_page_a_state_and_a_check(tmp_path):
    lesson = read_lesson(written(tmp_path, STEPS))
    assert [step.check for step in lesson.steps] == [
        Tap(2),
        NumberCheck("weight of it"),
        Condition("largest weight", "<", "0.25"),
        Choice(("x", "y"), "y"),
    ]
    assert [step.state for step in lesson.steps] == [(("a", "1"),), None, (("b", "2"),), ()]
    assert [step.controls for step in lesson.steps] == [(), ("a", "b"), (), ()]
    assert lesson.steps[2].holds == (Condition("sum of weights", "=", "1"),)
    links = [urlsplit(lesson.link(number)) for number in range(1, 5)]
    assert [(link.path, parse_qsl(link.query)[:-2]) for link in links] == [
        ("masks", [("a", "1")]),
        ("masks", [("a", "1")]),
        ("masks", [("b", "2")]),
        ("explore", []),
    ]


def test_a_lesson_without_steps_opens_its_page(tmp_path):
    lesson = read_lesson(written(tmp_path, 'title = "a"\nabout = "b"\npage = "explore"'))
    assert lesson.link() == "explore?lesson=one&lesson-step=1"
    assert [step.ask for step in lesson.steps] == [""]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("tap = 2", "tap = 9", "Line 10: tap is 9; expected 1 to 5 tokens."),
        ("tap = 2", 'tap = "x"', "Line 10: tap is 'x'; expected a whole number."),
        ("number =", "reech =", "Line 15: Step 2 has “reech”; the known ones are"),
        ('"largest weight < 0.25"', '"largest weight"', "Line 22: “largest weight” is not a condition;"),
        # A long one is refused before it is matched, which would take seconds.
        ('"largest weight < 0.25"', f'"{"a" + " < " * 20_000}"', "Line 22: “a <  < "),
        ('"sum of weights = 1"', '"x"', "Line 23: “x” is not a condition;"),
        ('right = "y"', 'right = "z"', "Line 30: right is “z”, which is not one of choose."),
        ('right = "y"', "", "Line 25: Step 4 needs both choose and right, or neither."),
        ('right = "y"', 'right = "y"\ntap = 1', "Line 31: Step 4 has choose and tap; it may have one of them."),
        ('["x", "y"]', '["x", "x"]', "Line 29: choose is a list of different texts in quotes."),
        ('"explore"', '"nowhere"', "Line 28: page is “nowhere”; expected one of"),
        ('answer = "Two."', "", "Line 12: Step 2 has no answer."),
        ("{ b = 2 }", "{ b = { c = 1 } }", "Line 21: “b” in the state is"),
        ('controls = ["a", "b"]', "controls = [1]", "Line 16: controls is a list of link parameters in quotes."),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path, old, new, reason):
    assert old in STEPS
    with pytest.raises(ValueError, match=re.escape(reason)):
        read_lesson(written(tmp_path, STEPS.replace(old, new)))


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    assert read_lesson(written(tmp_path, b"\xef\xbb\xbf" + GOOD.encode())).title == "A title"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("title = ", "It is not TOML:"),
        ("x = " + "[" * 20_000, "Line 1 nests too deeply"),
        (b"title = '\xff'", "It is not valid UTF-8: byte 10"),
        ("#" * (MOST_FILE_BYTES + 1), "A lesson has at most 64 KB."),
        ("", "The lesson has no title, about and page."),
        ('title = "a"\nabout = "b"', "The lesson has no page."),
        (GOOD.replace('"A title"', "3"), "title is 3; expected text in quotes."),
        (GOOD.replace("A title", "  "), "The lesson has an empty title."),
        (
            GOOD.replace('"masks"', '"mask"'),
            "page is “mask”; expected one of lookup, steps, transformer, explore,",
        ),
        (
            GOOD.replace("title", "titel").replace("about", 'title = "x"\nabout'),
            "The lesson has “titel”; the known ones are",
        ),
        (GOOD.replace("layers = 7", "layers = { a = 1 }"), "“layers” in the state is {'a': 1}; expected text"),
        (GOOD.replace("7", "1979-05-27"), "expected text, a number, true or false."),
        ('title = "a"\nabout = "b"\npage = "masks"\nstate = "x"', "state is 'x'; expected a table."),
        ('title = "a"\nabout = "b"\npage = "masks"\nquestions = "x"', "questions is 'x'; expected a list."),
        ('title = "a"\nabout = "b"\npage = "masks"\nquestions = ["x"]', "Step 1 is not a table"),
        (GOOD.replace("answer", "antwort"), "Step 1 has no answer."),
        (GOOD.replace('"Because."', "1"), "answer is 1; expected text in quotes."),
        (GOOD.replace("7", "0x" + "f" * 3_600), "It has a whole number of more than 9,007,199,254,740,991."),
        (GOOD.replace("7", "[[[[1]]]]"), "“layers” in the state is [[[[1]]]]; expected text"),
        (GOOD.replace("layers = 7", f"{'a' * 5_000} = {{}}"), "a…” in the state is {}; expected text"),
        (GOOD.replace('"A title"', f"[{'1, ' * 900}]"), "title is [1, 1, 1, 1, 1, 1, ...]; expected text"),
        (
            "".join(f"a{i} = 1\n" for i in range(900)) + GOOD,
            "The lesson has “a0”, “a1”, “a2”, “a3” and “a4”; the known",
        ),
        (GOOD.replace('"masks"', f"'{'a' * 5_000}'"), "a…”; expected one of lookup,"),
        (GOOD + '[[questions]]\nask = "a"\nanswer = "b"\n', "It is not TOML:"),
        (GOOD.split("questions")[0] + '[[questions]]\nask="a"\nanswer="b"\n' * 13, "at most 12 steps; it has 13."),
    ],
)
def test_a_broken_file_is_named_with_its_reason_and_the_others_load(tmp_path, text, reason):
    written(tmp_path, GOOD.replace("A title", "Second"), "2.toml")
    written(tmp_path, text, "1 broken.toml")
    written(tmp_path, GOOD.replace("A title", "Third"), "3.toml")
    good, [broken] = read_lessons(tmp_path)
    assert [lesson.title for lesson in good] == ["Second", "Third"]
    assert broken.startswith("1 broken.toml is left out. ")
    assert reason in broken
    assert len(broken) < 300


def test_what_cannot_be_read_is_reported_too(tmp_path):
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "gone.toml").symlink_to(tmp_path / "nowhere")
    good, broken = read_lessons(tmp_path)
    assert good == []
    assert [problem.split(" is left out. It cannot be read: ")[0] for problem in broken] == ["folder.toml", "gone.toml"]


def test_a_folder_that_is_not_there_has_no_lessons(tmp_path):
    assert read_lessons(tmp_path / "nowhere") == ([], [])


def test_the_shipped_lessons_are_whole():
    good, broken = read_lessons(FOLDER)
    assert not broken
    assert len(good) >= 10
    assert all(sum(step.check is not None for step in lesson.steps) >= 2 for lesson in good)


def test_the_example_in_the_readme_is_a_lesson(tmp_path):
    [example] = re.findall(r"```toml\n(.*?)```", (FOLDER / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    lesson = read_lesson(written(tmp_path, example))
    assert lesson.link() == "explore?layer=encoder+3&pinned=10+%C2%B7+it&lesson=one&lesson-step=1"


# The numbers in the answers


def weights(text: str = EXAMPLE, mask: str = "full", **mechanism) -> torch.Tensor:
    """Of the head that the lessons are about."""
    return head_map(Model(text).layers()[3].inputs, Mechanism(mask=parse(mask), **mechanism), 1)


def at(token: str, text: str = EXAMPLE) -> int:
    return Model(text).layers()[3].inputs.key_tokens.index(token)


IT, ANIMAL, STREET, LAST = at("it"), at("animal"), at("street"), at("[SEP]")
WIDE = EXAMPLE.replace("tired", "wide")


def one_head() -> list[str]:
    example, wide = weights(), weights(WIDE)[at("it", WIDE)]
    assert example[IT].argmax() == ANIMAL
    to_first = [query for query, best in enumerate(example.argmax(-1).tolist()) if best == 0]
    return [
        number(float(example[IT, ANIMAL])),
        number(float(wide[at("animal", WIDE)])),
        number(float(wide[at("street", WIDE)])),
        str(len(to_first)),
        str(len(example)),
        "1",  # what a row adds up to
    ]


def causal() -> list[str]:
    full, causal = weights(), weights(mask="causal")
    found = outcome_counts(outcomes(full, causal))
    went = mass_shift(full[IT], causal[IT])
    assert found["kept"] == len(full)
    assert set(outcomes(full, causal)[LAST].tolist()) == {1}
    assert went.proportional
    return [
        str(found["removed"]),
        str(full.numel()),
        str(found["kept"] + found["re-weighted"]),
        str(len(went.removed)),
        number(went.removed_mass),
        number(float(full[IT, ANIMAL])),
        number(float(causal[IT, ANIMAL])),
        "1",  # of `band`, the diagonal
    ]


def windows_and_sinks() -> list[str]:
    window, sink = "sliding_window(4)", "sliding_window(4) | sinks(1)"
    near, with_first = weights(mask=window), weights(mask=sink)
    assert with_first[IT].nan_to_num(0).argmax() == 0
    assert near[IT, ANIMAL].isnan()
    long = 10_000
    seen = [
        int(parse(mask).bind(long, long, 1)(*map(torch.tensor, (0, 0, long - 1)), torch.arange(long)).sum())
        for mask in (window, sink)
    ]
    return [
        "4",  # the window of the link
        "3",
        str(int((~near.isnan()).sum())),
        str(int((~weights(mask="causal").isnan()).sum())),
        number(float(weights()[IT, ANIMAL])),
        number(float(near[IT, IT])),
        number(float(with_first[IT, 0])),
        str(long),
        *map(str, seen),
        str(IT - ANIMAL),
        str(IT - ANIMAL + 1),  # a window that has both
    ]


def other_scores() -> list[str]:
    rows = {kind: weights(normalizer=kind())[IT] for kind in (Softmax, Hard, Sparsemax, Entmax, TopK, ReLU, Softpick)}
    nonzero = {kind: row_summary(each).nonzero for kind, each in rows.items()}
    assert nonzero[Hard] == nonzero[Sparsemax]
    assert (
        nonzero[ReLU]
        == nonzero[Softpick]
        == int((Mechanism()(Model().layers()[3].inputs, heads=[1]).raw[0, IT] > 0).sum())
    )
    cosine = weights(score=Cosine())[IT]
    swin = Swinv2SelfAttention(Swinv2Config(), dim=4, num_heads=1, window_size=2)
    assert float(swin.logit_scale.detach().exp()) == pytest.approx(10)  # by which it multiplies before training
    return [
        *(str(nonzero[kind]) for kind in (Softmax, Hard, Entmax, TopK, ReLU)),
        number(row_summary(rows[ReLU]).total),
        number(row_summary(weights(normalizer=Sigmoid())[IT]).total),
        "0",  # the score above which ReLU and softpick leave something
        f"{np.exp(1 - -1):.1f}",
        number(float(cosine.max())),
        f"{1 / len(cosine)}",
    ]


def lookup(notch: str, *query: float) -> tuple[LookupResult, tuple[float, float] | None]:
    by = lookup_mechanism(notch, ScaledDot())
    return look_up(EXAMPLE_TABLE, query, by), lookup_gradient(EXAMPLE_TABLE, query, by)


def linked(name: str, parameter: str) -> str:
    return dict(read_lesson(FOLDER / name).steps[0].state)[parameter]


def query(name: str) -> tuple[float, float]:
    return float(linked(name, "query-x")), float(linked(name, "query-y"))


def dictionary() -> list[str]:
    cat, hen = (EXAMPLE_TABLE.values[EXAMPLE_TABLE.words.index(word)] for word in ("cat", "hen"))
    at = query("01-dictionary.toml")
    answer, slope = lookup(linked("01-dictionary.toml", "softness"), *at)
    assert answer.result == cat
    assert slope is None
    beside, slope = lookup("exact match", at[0] - 0.1, at[1])
    assert beside.result is None
    assert slope == (0, 0)
    return [f"{cat:g}", f"{hen:g}", "0", f"{max(answer.weights):g}"]


def soft() -> list[str]:
    at = query("02-soft.toml")
    answer, _ = lookup(linked("02-soft.toml", "softness"), *at)
    weights = dict(zip(EXAMPLE_TABLE.words, answer.weights, strict=True))
    assert sorted(weights, key=weights.get)[-2:] == ["hen", "cat"]
    assert weights["cat"] + weights["hen"] > 0.8
    parts = dict(zip(EXAMPLE_TABLE.words, np.array(answer.weights) * EXAMPLE_TABLE.values.numpy(), strict=True))
    assert parts["cat"] + parts["hen"] > answer.result / 2
    assert max(part for word, part in parts.items() if word not in {"cat", "hen"}) < min(parts["cat"], parts["hen"])
    assert lookup("exact match", *at)[0].result is None
    hard, uniform = (lookup(notch, *at)[0] for notch in ("hard", "uniform"))
    assert hard.weights[EXAMPLE_TABLE.words.index("cat")] == 1
    assert uniform.result == pytest.approx(float(EXAMPLE_TABLE.values.mean()))
    assert set(map(number, uniform.weights)) == {number(0.2)}
    return [
        f"{answer.result:.2f}",
        number(weights["cat"]),
        number(weights["hen"]),
        f"{hard.result:g}",
        str(len(weights)),
        number(uniform.weights[0]),
        f"{uniform.result:.2f}",
        "1",  # by which a score grows
        f"{np.exp(1):.2f}",
    ]


def similarities() -> list[str]:
    at = query("03-similarities.toml")
    entry = EXAMPLE_TABLE.entries[EXAMPLE_TABLE.words.index("cat")]
    scores = Dot(), ScaledDot(), General(torch.tensor(W))
    dot, scaled, general = (look_up(EXAMPLE_TABLE, at, lookup_mechanism("T = 1", score)) for score in scores)
    cat, spider = (EXAMPLE_TABLE.words.index(word) for word in ("cat", "spider"))
    assert max(general.weights) == general.weights[spider]
    return [
        *(f"{one:g}" for one in (*at, entry.x, entry.y, dot.similarities[cat])),
        *(number(one) for one in (dot.weights[cat], scaled.weights[cat], general.weights[spider])),
    ]


def numbers() -> list[str]:
    found = compute_steps(SentenceExample())
    row = found.inputs.query_tokens.index("cat")
    of = {name: matrix.values[row].tolist() for name, matrix in found.matrices.items()}
    assert of["raw0"].index(max(of["raw0"])) == found.inputs.key_tokens.index("the") == 0
    changed = compute_steps(SentenceExample(), {"Q0": {(row, 0): 0.0}})
    for name, matrix in found.matrices.items():
        others = [i for i in range(len(matrix.rows)) if i != row]
        assert torch.equal(matrix.values[others], changed.matrices[name].values[others])
    return [
        *map(cell_number, (of["raw0"][0], of["scaled0"][0], *of["exp0"], *of["sum0"], of["weights0"][0])),
        str(SentenceExample().d_k),
        "0",  # what is to be written
    ]


def wide() -> list[str]:
    found = measure_scaling()
    at = found.widths.index(int(linked("05-scaling.toml", "d")))
    assert found.variance[0] == pytest.approx(torch.tensor(found.widths).float(), rel=0.11)
    assert found.variance[1] == pytest.approx(torch.ones(len(found.widths)), abs=0.11)
    return [
        str(found.widths[at]),
        f"{float(found.variance[0, at]):.0f}",
        str(KEYS),
        *(number(float(one[how, at])) for one in (found.greatest, found.gradient) for how in (0, 1)),
        "1",  # the variance of each product, and of those divided
        "0",  # between these two lies a weight
        "0.7",  # which is to be reached, up to this width
        str([width for width, weight in zip(found.widths, found.greatest[0], strict=True) if weight < 0.7][-1]),
    ]


def three_uses() -> list[str]:
    translation = load().translate(linked("11-three-uses.toml", "text"))
    french = [step.word for step in translation.steps]
    layers = {use: translation.layers(use=use) for use in USES}
    state = TransformerState(text=linked("11-three-uses.toml", "text"), tab=THREE_USES)
    shown = {use: (layers[use][index], head) for use, (index, head) in state.heads.items()}

    def gives(use: Use, query: str, key: str) -> float:
        layer, head = shown[use]
        names = [name.rpartition(" → ")[2] for name in layer.inputs.query_tokens]
        weights = layer.known_mechanism(layer.inputs).weights[head][names.index(query)]
        assert layer.inputs.key_tokens[int(weights.argmax())] == key
        return float(weights.max())

    cross, head = shown["cross"]
    lines = cross.known_mechanism(cross.inputs).weights[head].argmax(-1)
    assert lines[french.index("chat")] > lines[french.index("noir")]
    assert french.index("chat") < french.index("noir")
    assert translation.decoder_rows[int(linked("11-three-uses.toml", "word")) - 1] == "regarde → pas"
    return [
        *(number(gives("encoder", word, "cat")) for word in ("small", "black")),
        *(number(gives("cross", word, "not")) for word in ("ne", "pas")),
        number(gives("decoder", "pas", "ne")),
    ]


def several_heads() -> list[str]:
    found = compute_steps(SentenceExample(heads=2, d_k=2))
    state = dict(read_lesson(FOLDER / "07-several-heads.toml").steps[2].state)
    model, written = translator(), (state["text"], state["written"])
    before = model.output(model.encode(*written)).softmax(-1)
    word = int(before.argmax())
    assert model.tokenizer.convert_ids_to_tokens([word]) == ["pas"]
    layers = model.layers(*written)
    changes = {
        (index, head): float(
            run_with_interventions(model, [Intervention(ablated=((index, head),))], *written).output.softmax(-1)[word]
            - before[word]
        )
        for index, layer in enumerate(layers)
        for head in range(layer.inputs.heads)
    }
    (index, head), *others = sorted(changes, key=changes.__getitem__)
    layer = layers[index]
    weights = layer.known_mechanism(layer.inputs).weights[head, -1]
    assert layer.name == "decoder 0"
    assert "ne" in [layer.inputs.key_tokens[key] for key in weights.topk(2).indices]
    return [
        *(str(size) for size in (found.inputs.heads, found.matrices["heads"].values.shape[1])),
        number(float(before[word])),
        number(abs(changes[index, head])),
        str(head),
        str(layer.id.index),
        f"{max(abs(changes[other]) for other in others):.2f}",
        "1",  # what a row adds up to
    ]


def before_attention() -> list[str]:
    english = tuple(linked("12-before-attention.toml", "text").split())
    lines = (shipped_accuracies()[name] for name in COMPARED)
    attention, fixed = (next(one for one in line if one.length == len(english)) for line in lines)
    both = [load(name).translate(" ".join(english)) for name in COMPARED]
    assert attention.sentences == 1
    assert both[0].french == both[1].french == both[0].reference.french
    other = load(COMPARED[1]).translate("the small red car is beautiful .")
    return [
        number(fixed.sentences),
        str(D_MODEL),
        str(len(matching_words(other.french, other.reference.french))),
        str(len(other.reference.french)),
    ]


def forward_pass() -> list[str]:
    return []


CLAIMS: dict[str, Callable[[], list[str]]] = {
    "01-dictionary.toml": dictionary,
    "02-soft.toml": soft,
    "03-similarities.toml": similarities,
    "04-numbers.toml": numbers,
    "05-scaling.toml": wide,
    "06-one-head.toml": one_head,
    "07-several-heads.toml": several_heads,
    "08-causal.toml": causal,
    "09-windows-and-sinks.toml": windows_and_sinks,
    "10-other-scores.toml": other_scores,
    "11-three-uses.toml": three_uses,
    "12-before-attention.toml": before_attention,
    "13-forward-pass.toml": forward_pass,
    "14-one-word-at-a-time.toml": language_model.one_word_at_a_time,
    "15-sink.toml": language_model.sink,
    "16-how-it-repeats.toml": language_model.repeated,
    "17-why-mary.toml": shares_by_hand.why_mary,
    "18-how-the-copy-is-found.toml": shares_by_hand.how_the_copy_is_found,
    "19-where-it-looks-is-not-why.toml": effects_by_hand.where_it_looks,
    "20-who-gave-what-to-whom.toml": effects_by_hand.who_gave,
    "21-one-sentence-is-no-law.toml": atlas_by_hand.one_sentence_is_no_law,
    "22-what-a-picture-looks-at.toml": pictures_by_hand.what_a_picture_looks_at,
}


def english_path(path):
    """The lesson of which a file is a translation, or the file itself."""
    number = path.stem.removeprefix("de-")[:2]
    return next(one for one in SHIPPED if one.stem.startswith(number))


def test_every_lesson_is_there_in_german_and_has_claims():
    assert {*CLAIMS} == {path.name for path in SHIPPED if path not in GERMAN}
    assert sorted(map(english_path, GERMAN)) == sorted(path for path in SHIPPED if path not in GERMAN)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_step_names_controls_that_its_page_has(path):
    for step in read_lesson(path).steps:
        assert {*step.controls} <= {field.parameter for field in BLOCKS[step.page].state.fields}


@pytest.mark.parametrize("path", GERMAN, ids=lambda path: path.stem)
def test_a_translated_lesson_opens_the_same_states_and_checks_the_same(path):
    english, translated = read_lesson(english_path(path)), read_lesson(path)
    assert translated.language == "de"
    assert [(one.page, one.state, one.holds, one.controls) for one in translated.steps] == [
        (one.page, one.state, one.holds, one.controls) for one in english.steps
    ]
    for mine, theirs in zip(translated.steps, english.steps, strict=True):
        if isinstance(theirs.check, Choice):
            assert mine.check.options.index(mine.check.right) == theirs.check.options.index(theirs.check.right)
        else:
            assert mine.check == theirs.check


@pytest.mark.parametrize("name", CLAIMS)
def test_every_number_of_a_lesson_is_what_the_library_gives(name):
    computed = set(CLAIMS[name]())
    for path in filter(lambda path: english_path(path).name == name, SHIPPED):
        text = " ".join(f"{step.ask} {step.answer}" for step in read_lesson(path).steps)
        said = set(re.findall(r"\d+(?:\.\d+)?", text))
        assert said - computed == set(), f"said in {path.stem}, but not computed"
        assert computed - said == set(), f"computed, but not said in {path.stem}"
