"""What each head does over many texts: those that come with attnviz, or one's own."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from attnviz.analysis.atlas import Atlas, atlas, shipped_atlas, shipped_texts
from attnviz.analysis.head_detectors import Detector
from attnviz.base.formatting import grouped, number, percent
from attnviz.base.language import _, plural, value_error
from attnviz.effects.ablation import Head
from attnviz.page.blocks import (
    Block,
    Caption,
    Columns,
    Computed,
    Control,
    Heading,
    Kept,
    More,
    Note,
    Summary,
    Unavailable,
    available,
)
from attnviz.page.head_numbers import HeadNumbers
from attnviz.page.result_cache import result_cache
from attnviz.page.text_list import text_refusal
from attnviz.pages.heads.head_examples import head_examples
from attnviz.pages.heads.measured_heads import (
    kinds_of_heads,
    largest_share,
    measure_controls,
    measure_title,
    measured_heads,
)
from attnviz.pages.heads.mlp_examples import mlp_examples
from attnviz.pages.heads.state import HeadsState

CHOICES = HeadsState.head, HeadsState.examples, HeadsState.mlp
PART = 8  # texts that are read before others get their turn
BEFORE, AFTER = 30, 45  # texts that would be read in the time before the first one, and after the last (SmolLM2)


@dataclass(frozen=True, eq=False)
class ReadTexts:
    """How many of the texts have been read, of how many heads and MLPs it is known what they raise, and the atlas once
    it is of all of them."""

    count: int
    raised: tuple[int, int] | None = None  # that are known, and all; None before all texts have been read
    atlas: Atlas | None = None


def heads_over_texts(state: HeadsState) -> Iterator[Block]:
    """Yields what is counted of all heads over the texts, with what there is about the chosen one."""
    state.check_modality()
    refusal = ""
    try:
        lines = _readable_lines(state)
    except ValueError as problem:
        lines, refusal = (), str(problem)
    inputs: list[Block] = [Control(HeadsState.own_texts, state), Control(HeadsState.file, state)]
    if not lines and not refusal:
        count = len(shipped_texts())
        inputs.append(
            Note(_("{count} texts that SmolLM2 has written are read, unless you give your own.", count=count))
        )
    own = More(_("Texts of your own"), inputs, is_open=bool(refusal or lines), name="texts-read")
    if refusal:  # which stands right above the field
        fields = HeadsState.measure, HeadsState.against, HeadsState.at_least, *CHOICES
        yield from (Kept(fields, state), Unavailable(refusal), own)
        return
    controls = measure_controls(state)
    yield Columns(
        [*((0.34, column) for _share, column in controls.columns), (0.32, [Control(HeadsState.at_least, state)])]
    )
    yield from available(_over_texts(state, lines))
    yield own
    yield Caption(
        _(
            "**What you are seeing.** A number of each head in each text, and its mean over the texts. Examples are of "
            "weights on other tokens than the first, special ones and the query itself. **What it does not say:** what "
            "a head does in texts of another kind. The largest weight is an exception as often as a rule: look at the "
            "pairs drawn at random, too."
        )
    )


def _readable_lines(state: HeadsState) -> tuple[str, ...]:
    """Returns one's own texts, once it is known that the model reads each of them. Raises ValueError for another list,
    with the number of the text that the model does not read."""
    lines, model = state.lines, state.source.model()

    def check() -> bool:
        for place, line in enumerate(lines, 1):
            try:
                with model.refusals():
                    model.text_inputs.encode(line, None)  # without what a decoder writes, which takes time
            except ValueError as problem:
                raise text_refusal(place, problem) from problem
        return True

    result_cache().once(check, "texts are read", state.model, lines)
    return lines


def _over_texts(state: HeadsState, lines: tuple[str, ...]) -> Iterator[Block]:
    texts = lines or shipped_texts()
    known = None if lines else shipped_atlas(state.source.model())
    if known is not None:
        yield from _of_atlas(state, known)
    else:
        compute, describe, shows = partial(_read, state, texts), partial(_so_far, len(texts)), partial(_of_texts, state)
        key = "atlas", state.model, texts
        yield Computed("atlas", compute, lambda: key, describe, shows, subject=state.model)


def _so_far(count: int, read: ReadTexts) -> str:
    if read.raised is None:
        return _("{done} of {count} texts have been read.", done=read.count, count=count)
    done, parts = read.raised
    return _("Which tokens heads and MLPs raise is known of {done} of {parts}.", done=done, parts=parts)


def _read(
    state: HeadsState, texts: Sequence[str], progress: Callable[[float, ReadTexts], None] | None = None
) -> ReadTexts:
    count = len(texts)
    report = progress or (lambda share, read: None)

    def on_texts(done: int, count: int) -> None:
        report((BEFORE + done) / (BEFORE + count + AFTER), ReadTexts(done))

    def on_raised(done: int, parts: int) -> None:
        share = (BEFORE + count + AFTER * done / parts) / (BEFORE + count + AFTER)
        report(share, ReadTexts(count, (done, parts)))

    report(0, ReadTexts(0))
    made = atlas(state.source.model(), texts, part_size=PART, on_progress=on_texts, on_raised=on_raised)
    return ReadTexts(count, atlas=made)


def _of_texts(state: HeadsState, read: ReadTexts) -> Iterator[Block]:
    if read.atlas is None:
        reading = _("The texts are being read.") if read.raised is None else _("All texts have been read.")
        yield Summary(reading, None)
        yield Kept(CHOICES, state)
    else:
        yield from _of_atlas(state, read.atlas)


def _of_atlas(state: HeadsState, known: Atlas) -> Iterator[Block]:
    if [*dict.fromkeys(known.layers)] != [*state.ids]:
        raise value_error("The layers of {name} are different on these texts.", name=state.model)
    measured = {one: _numbers(state, known, one) for one in HeadsState.measure.options(state).values()}
    texts = len(known.texts)
    rests = [
        plural("Over {count} text of yours.", "Over {count} texts of yours.", texts, count=grouped(texts))
        if state.lines
        else _(
            "The {count} texts are answers that SmolLM2-135M-Instruct has written to 50 requests, at a temperature of "
            "0.8.",
            count=texts,
        )
    ]
    missing = texts - int(known.counts[known.metrics.index(_metric(state.measure))].max())
    if missing == texts:
        rests.append(_("It is not defined there."))
    elif missing:
        rests.append(_("In {count} of them it is not defined.", count=missing))
    largest = partial(_largest, state, known)
    yield from measured_heads(state, measured, " ".join(rests), largest, partial(head_examples, state, known))
    if state.at_least is None:
        yield Heading(_("Heads that do mainly one thing, as a mean over the texts"))
        yield kinds_of_heads(state, measured)
    yield More(_("MLPs"), [*mlp_examples(state, known)], name="mlps")


def _numbers(state: HeadsState, known: Atlas, measure: Detector) -> HeadNumbers:
    """Returns the mean over the texts with the least and the largest number, or the share of texts above a number."""
    metric, least = _metric(measure), state.at_least
    index = known.metrics.index(metric)
    places = np.array([state.ids.index(id) for id in known.layers]), np.array(known.heads)
    if least is not None:
        title = _("{name}: texts with at least {least}", name=measure_title(measure), least=number(least))
        values = state.grid(*places, known.share_above(metric, least).numpy().astype("f8"))
        return HeadNumbers(title, state.ids, values, largest=1.0, texts=lambda place: percent(float(values[place])))
    of_texts = known.values[:, index].float().numpy()
    is_known = np.isfinite(of_texts)
    low = np.where(is_known, of_texts, np.inf).min(0)
    high = np.where(is_known, of_texts, -np.inf).max(0)
    ends = state.grid(*places, low), state.grid(*places, high)
    values = state.grid(*places, known.means[index].numpy())
    return HeadNumbers(measure_title(measure), state.ids, values, ends, 1.0 if measure.unit == "share" else None)


def _metric(measure: Detector) -> str:
    assert measure.metric is not None  # of weights
    return measure.metric.name


def _largest(state: HeadsState, known: Atlas, shown: HeadNumbers, strongest: Sequence[Head]) -> str:
    if not strongest:
        return largest_share(state.measure, shown, strongest)
    if state.at_least is None:
        # Of the texts in which the number of this head is defined.
        texts = int(known.counts[known.metrics.index(_metric(state.measure)), known.head(*strongest[0])])
        over = plural("That is of {count} text.", "That is the mean of {count} texts.", texts, count=grouped(texts))
        return f"{largest_share(state.measure, shown, strongest)} {over}"
    others = int((shown.values == shown.values[strongest[0]]).sum()) - 1
    text = _(
        "{head} has at least {least} in {share} of the texts, {others}.",
        head=shown.name(strongest[0]),
        least=number(state.at_least),
        share=shown.text(strongest[0]),
        others=plural("and so has {count} more", "and so have {count} more", others, count=others)
        if others
        else _("more than any other head"),
    )
    return text[:1].upper() + text[1:]
