"""The sums of many texts: the mean share of each writer, how far its shares are apart, and the texts in their order."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from attnviz.attribution.metrics import LogitDifference
from attnviz.attribution.sum_term import format_term
from attnviz.base.formatting import number
from attnviz.base.language import _, value_error
from attnviz.base.link import Link
from attnviz.figures.shares import signed, split_bar
from attnviz.lessons.checks import Quantities
from attnviz.page.blocks import (
    Anchor,
    Block,
    Caption,
    Columns,
    Computed,
    Control,
    Figure,
    Note,
    Summary,
    Table,
)
from attnviz.page.head_numbers import HeadNumbers, Opens, Place
from attnviz.page.html import element
from attnviz.page.text_list import against_and_for, difference_name, text_link
from attnviz.page.text_list_blocks import (
    above_sentence,
    numbers_of_texts,
    ordered_texts,
    texts_control,
    totals_sentence,
)
from attnviz.page.text_question import SAYING, all_heads
from attnviz.pages.effects.links import head_effect_link
from attnviz.pages.why.state import WhyState, writer_places
from attnviz.pages.why.text_sums import TextSums, text_sums

BAR = 190  # pixels
LEAST_PART = 0.005  # that is drawn
LARGEST = 10  # writers in the table


def sums_over_texts(state: WhyState) -> Iterator[Block]:
    """Yields the mean shares of all writers over the texts. Raises ValueError if the model says nothing."""
    if state.source.model().outputs not in SAYING:
        raise value_error(
            "{name} says neither a next token nor a label, of which there would be a sum. Choose another model.",
            name=state.model,
        )
    yield texts_control(state)
    compute, key, shows = partial(text_sums, state), partial(_key, state), partial(_sums, state)
    yield Computed("many", compute, key, _so_far, shows, subject=state.model)
    yield Caption(
        _(
            "**What you are seeing.** Of each text the number is a sum over all that heads, MLPs and embeddings have "
            "written. A share here is that of all positions of a text together, as mean over the texts. **What it does "
            "not say:** a mean near 0 may be of shares that are large and of both signs: look at how far they are "
            "apart. And a share says how a number came about, not what it would be if a head wrote nothing."
        )
    )


def _key(state: WhyState) -> tuple[object, ...]:
    return "sums of texts", state.model, *state.measured


def _so_far(sums: TextSums) -> str:
    return _("{done} of {count} texts have been read.", done=len(sums.measured), count=sums.count)


def _sums(state: WhyState, sums: TextSums) -> Iterator[Block]:
    """Yields the mean shares as a grid and a table, and those of the chosen writer text by text."""
    numbers, total = mean_shares(state, sums), float(sums.totals.mean())
    largest, places = numbers.farthest(LARGEST), {*writer_places(state).values()}
    shown = state.writer or next(filter(numbers.is_head, largest), largest[0])
    quantities = partial(texts_quantities, state, numbers, total)
    yield Summary(_answer(state, sums, numbers), quantities if sums.is_complete else None)

    def opens(place: Place) -> Link | None:
        return state.link_with(writer=place) if place in places else None

    hint = _("Click a head or an MLP to see its share in each text.")
    yield numbers.grid("why-texts-grid", hint, opens, shown, cells=(state.model, numbers.cells.shape))
    error = number(float(np.abs(sums.errors).max()))
    about = _("In each text the shares add up to the number; at most {error} is missing.", error=error)
    if (count := len(sums.measured)) > 1:
        about = _("The mean of {count} texts, ± its standard error.", count=count) + " " + about
    yield Note(about)
    bar = Figure(split_bar(_parts(numbers), total), "why-texts-sum", BAR)
    of_writer = [Control(WhyState.writer, state), *_writer_over_texts(state, sums, shown, numbers.name(shown))]
    yield Columns([(0.4, [bar, _table(sums, numbers, largest, opens, shown)]), (0.6, of_writer)])


def mean_shares(state: WhyState, sums: TextSums) -> HeadNumbers:
    """Returns the mean shares of heads, MLPs and inputs over the texts, with their standard errors in words."""
    mean, run = sums.mean_cells, state.run
    texts, metrics = zip(*sums.measured, strict=True)
    return HeadNumbers(
        _("Mean shares of heads and MLPs"),
        run.ids,
        mean[1:, :-1],
        sign=against_and_for(run, metrics[0].token, texts),
        counts=run.heads,
        texts=lambda place: " ± ".join(filter(None, _mean_and_error(sums, place))),
        mlps=mean[1:, -1],
        inputs=(mean[0, 0], mean[0, -1]),
    )


def _mean_and_error(sums: TextSums, place: Place) -> tuple[str, str]:
    """Returns the mean share of a writer and its standard error, which one text does not have."""
    cell = place[0] + 1, place[1]
    mean, error = float(sums.mean_cells[cell]), float(sums.cell_errors[cell])
    return signed(mean), number(error) if np.isfinite(error) else ""


def _answer(state: WhyState, sums: TextSums, numbers: HeadNumbers) -> tuple[object, ...]:
    """Returns how large the numbers are, and the writers with the largest mean shares for them and against them."""
    texts, metrics = zip(*sums.measured, strict=True)
    text = totals_sentence(difference_name(state.run, metrics[0], texts), sums.totals)
    if isinstance(metrics[0], LogitDifference):
        text += " " + above_sentence(sums.totals)
    places = numbers.farthest(numbers.cells.size)
    most, least = max(places, key=numbers.value), min(places, key=numbers.value)
    sentences = []
    if numbers.value(most) > 0:
        named = {"writer": numbers.name(most), "share": numbers.text(most)}
        sentences.append(_("The largest mean share for it is that of {writer}: {share}.", **named))
    if numbers.value(least) < 0:
        named = {"writer": numbers.name(least), "share": numbers.text(least)}
        sentences.append(_("The largest mean share against it is that of {writer}: {share}.", **named))
    return text, " ", element("span", " ".join(sentences), class_="attnviz-finding")


def _parts(numbers: HeadNumbers) -> dict[str, float]:
    """Returns the mean of the numbers by kinds of writers."""
    constant, embeddings = numbers.inputs or (0.0, 0.0)
    parts = {
        _("heads"): float(np.nansum(numbers.values)),
        _("MLPs"): float(np.nansum(numbers.cells[1:, -1])),
        _("embeddings"): float(embeddings),
        _("constant"): float(constant),
    }
    return {name: value for name, value in parts.items() if abs(value) >= LEAST_PART}


def _table(sums: TextSums, numbers: HeadNumbers, places: Sequence[Place], opens: Opens, shown: Place) -> Table:
    """Returns these writers with their mean shares and standard errors; a click chooses one."""
    rows = []
    for place in places:
        link, name = opens(place), numbers.short_name(place)
        rows.append((name if link is None else Anchor(name, link), *_mean_and_error(sums, place)))
    headings = _("What wrote it"), _("mean share"), _("standard error")
    return Table(headings, rows, places.index(shown) if shown in places else None)


def _writer_over_texts(state: WhyState, sums: TextSums, place: Place, name: str) -> Iterator[Block]:
    """Yields the share of a writer in all texts, as a sentence, as bars, and text by text, the largest first."""
    values = sums.shares(place)
    anchors = []
    if place in all_heads(state).values():
        link = head_effect_link(state, place)
        anchors.append(Anchor(_("What happens without it?"), link, "effects", "attnviz-page-link"))
    yield from numbers_of_texts(name, _("share of {head}", head=name), values, "why-distribution", anchors)
    items = [_item(state, sums, int(i), place, float(values[i])) for i in np.argsort(-values, kind="stable")]
    yield from ordered_texts(items, _("Texts by the share"))


def _item(state: WhyState, sums: TextSums, number_of_text: int, place: Place, share: float) -> tuple[object, ...]:
    """Returns a text with the share of a writer in its sum, and the link to that sum with its largest term shown."""
    text, term = sums.measured[number_of_text][0], sums.term(state.run, number_of_text, place)
    model = tuple(each for each in state.link_with() if each[0] == WhyState.model.parameter)
    after = ((WhyState.position.parameter, name),) if (name := sums.after[number_of_text]) else ()
    shown = () if term is None else ((WhyState.term.parameter, format_term(term)),)
    whole = _("(of {total})", total=number(float(sums.totals[number_of_text])))
    link = (*text_link(state, text, model), *after, *shown)
    parts = element("b", signed(share)), " ", whole, " ", element("bdi", text.text), " · ", Anchor(_("Open"), link)
    return tuple(parts)


def texts_quantities(state: WhyState, numbers: HeadNumbers, total: float) -> Quantities:
    """Returns the numbers that lessons check: the mean of the numbers, and the mean shares of heads and MLPs."""
    mlps = {f"share of MLP {mlp}": numbers.value((layer, numbers.values.shape[1]))
            for mlp, layer in enumerate(state.run.mlp_layers)}  # fmt: skip
    return {"total": total, **numbers.quantities("share of"), **mlps}
