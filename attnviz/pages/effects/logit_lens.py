"""What the model would say after each layer, at each token."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from attnviz.base.cached_property import cached_property
from attnviz.base.formatting import grouped, number, plain_word, significant
from attnviz.base.language import _, option_name
from attnviz.base.link import Link
from attnviz.effects.logit_lens import LayerPredictions, layer_predictions
from attnviz.figures import Chart
from attnviz.figures.chart_spec import MosaicSpec
from attnviz.figures.layer_tokens import layer_at, layer_tokens
from attnviz.page import html
from attnviz.page.blocks import Anchor, Block, Caption, Control, Figure, Heading, Note, Summary, Table
from attnviz.page.head_numbers import INPUT
from attnviz.page.page_view import Panel
from attnviz.page.result_cache import result_cache
from attnviz.pages.effects.state import CHOSEN, ENTROPY, EffectsState
from attnviz.pages.why.links import text_of_model

MOST_COLUMNS = 24  # tokens that are drawn
NAMED = 3  # tokens in the sentence of a cell
ROW, AROUND = 16, 110  # pixels
FORWARDS = 8  # that a logit lens takes about


class LensRow(NamedTuple):
    """A token that is likely after a layer, and a link to why the model says it; None where Why cannot be asked."""

    token: str
    probability: str
    link: Link | None


@dataclass(frozen=True, eq=False)
class LensView:
    """The predictions of all layers, of which those at some tokens are drawn."""

    state: EffectsState
    predictions: LayerPredictions
    token: int | None  # whose probability and rank are known

    @cached_property
    def position(self) -> int:
        """The position that is asked for; the last where it has none."""
        count = self.predictions.entropy.shape[1]
        position = getattr(self.state.metric, "position", -1)
        return position % count if -count <= position < count else count - 1

    @cached_property
    def positions(self) -> range:
        """The positions that are drawn: those up to the one that is asked for, and after it while there is room."""
        count = self.predictions.entropy.shape[1]
        first = max(0, min(self.position + 1, count) - MOST_COLUMNS)
        return range(first, min(count, first + MOST_COLUMNS))

    @cached_property
    def cell(self) -> tuple[int, int]:
        """The layer and the position that are shown: those that were chosen, or the last layer."""
        layers, count = self.predictions.entropy.shape
        layer, position = self.state.lens_cell or (layers - 1, self.position)
        return min(layer, layers - 1), min(position, count - 1)

    @cached_property
    def layer_names(self) -> list[str]:
        """The names of the rows: what the layers get, and the number of each layer."""
        count = len(self.predictions.entropy) - 1
        numbers = self.state.run.layer_numbers[-count:] if len(self.state.run.layer_numbers) == count else range(count)
        return [_(INPUT), *(option_name(str(each)) for each in numbers)]

    @cached_property
    def names(self) -> list[list[list[str]]]:
        """The likeliest tokens of each layer at each position that is drawn."""
        tokens = self.predictions.tokens[:, self.positions.start : self.positions.stop]
        names = np.array(self.state.run.names(tokens.flatten().tolist()), dtype=object)
        return names.reshape(tokens.shape).tolist()

    @property
    def sentence(self) -> str:
        """From which layer on the likeliest token is that of the model, and the rank of the token that is asked for."""
        likeliest = self.predictions.tokens[:, self.position, 0]
        changes = (likeliest != likeliest[-1]).nonzero().flatten()
        first = int(changes[-1]) + 1 if len(changes) else 0
        facts = {"word": self._word(self.position), "token": self._text(int(likeliest[-1])), "when": self.when(first)}
        if first == len(likeliest) - 1:
            text = _("At “{word}”, “{token}” is the likeliest token only after the last layer.", **facts)
        else:
            text = _("At “{word}”, “{token}” is the likeliest token {when}, and from there to the end.", **facts)
        if self.token is None or self.token == likeliest[-1]:
            return text
        ranks = self.predictions.rank[:, self.position]
        best = int(ranks.argmin())
        names = {"token": self._text(self.token), "when": self.when(best), "rank": grouped(int(ranks[best]))}
        best_rank = _("“{token}” has its best rank {when}: {rank}.", **names)
        return f"{text} {best_rank}"

    def when(self, layer: int) -> str:
        """Returns after which layer a row is, as part of a sentence."""
        return _("after layer {layer}", layer=self.layer_names[layer]) if layer else _("before the first layer")

    def chart(self) -> Chart[MosaicSpec]:
        """Returns the likeliest token of each layer and position, on a color."""
        drawn = slice(self.positions.start, self.positions.stop)
        values, largest = self.colors[:, drawn], 1.0
        if self.state.lens_color == ENTROPY:
            largest = float(self.colors.max()) or 1.0
        layer, position = self.cell
        return layer_tokens(
            values,
            self.layer_names,
            [plain_word(self._words[i]) for i in self.positions],
            [[likeliest[0] for likeliest in row] for row in self.names],
            [[self._cell_sentence(i, j) for j in self.positions] for i in range(len(self.names))],
            largest=largest,
            chosen=(layer, position - drawn.start) if position in self.positions else None,
        ).with_about(label=_("Logit lens"), hint=_("Click a cell to see its likeliest tokens."))

    @property
    def rows(self) -> list[LensRow]:
        """The likeliest tokens of the cell that is shown, with links to why the whole model says them."""
        layer, position = self.cell
        tokens = self.predictions.tokens[layer, position].tolist()
        probabilities = self.predictions.probabilities[layer, position].tolist()
        first, second = self.predictions.tokens[-1, position, :2].tolist()
        read = text_of_model(self.state.source)
        return [
            LensRow(
                self._text(token),
                number(probability),
                None if read is None else read.token_link(token, second if token == first else first, position),
            )
            for token, probability in zip(tokens, probabilities, strict=True)
        ]

    @property
    def title(self) -> str:
        """The title of the likeliest tokens of the cell that is shown."""
        layer, position = self.cell
        return _("At “{word}”, {when}", when=self.when(layer), word=self._word(position))

    @property
    def note(self) -> str:
        """Which tokens are drawn, if not all, and that the stream is normalized before its end."""
        count, notes = self.predictions.entropy.shape[1], []
        if len(self.positions) < count:
            notes.append(
                _(
                    "Drawn are tokens {first} to {last} of {count}.",
                    first=self.positions[0] + 1,
                    last=self.positions[-1] + 1,
                    count=grouped(count),
                )
            )
        if self.predictions.is_normalized:
            notes.append(_("The layers of this model end with a norm, so that their stream is normalized already."))
        return " ".join(notes)

    @property
    def quantities(self) -> dict[str, float]:
        """The numbers that lessons check: the probability and the rank of the token, and the entropy, at the position
        that is asked for."""
        numbers = {}
        for layer, name in enumerate(self.layer_names):
            numbers[f"entropy after {name}"] = float(self.predictions.entropy[layer, self.position])
            if self.token is not None:
                numbers[f"probability after {name}"] = float(self.predictions.probability[layer, self.position])
                numbers[f"rank after {name}"] = float(self.predictions.rank[layer, self.position])
        return numbers

    @cached_property
    def colors(self) -> Float[np.ndarray, "layers tokens"]:
        """The values that the colors stand for, at all tokens."""
        if self.state.lens_color == ENTROPY:
            return self.predictions.entropy.numpy()
        if self.state.lens_color == CHOSEN:
            return self.predictions.probability.numpy()
        return self.predictions.probabilities[..., 0].numpy()

    @property
    def _words(self) -> tuple[str, ...]:
        return self.state.run.predicting

    def _word(self, position: int) -> str:
        return plain_word(self._words[position])

    def _text(self, token: int) -> str:
        return plain_word(self.state.run.names([token])[0])

    def _cell_sentence(self, layer: int, position: int) -> str:
        likeliest = self.names[layer][position - self.positions.start][:NAMED]
        probabilities = self.predictions.probabilities[layer, position].tolist()
        named = ", ".join(
            f"“{plain_word(name)}” {number(share)}" for name, share in zip(likeliest, probabilities, strict=False)
        )
        entropy = significant(float(self.predictions.entropy[layer, position]), 3)
        facts = {"when": self.when(layer), "word": self._word(position), "tokens": named, "entropy": entropy}
        if self.token is None:
            return _("At “{word}”, {when}: {tokens}; entropy {entropy} bits", **facts)
        rank = grouped(int(self.predictions.rank[layer, position]))
        return _(
            "At “{word}”, {when}: {tokens}; entropy {entropy} bits; rank of “{token}”: {rank}",
            token=self._text(self.token),
            rank=rank,
            **facts,
        )


def logit_lens_blocks(state: EffectsState) -> Iterator[Block]:
    """Yields the likeliest token of each layer and position, and those of the chosen cell with links to Why. Raises
    ValueError as `lens_view`."""
    shown = lens_view(state)
    picture = shown.chart()

    def opens(row: int, column: int) -> Link:
        return state.link_with(lens_cell=(layer_at(picture, row), shown.positions[column]))

    words = [plain_word(word) for word in state.run.predicting]
    panel = Panel(_("Logit lens"), shown.colors, shown.layer_names, words)
    yield Summary(shown.sentence, lambda: shown.quantities)
    yield Figure(picture, "effects-lens", AROUND + ROW * picture.spec.rows, opens, panels=[panel])
    if shown.note:
        yield Note(shown.note)
    yield Control(EffectsState.lens_color, state)
    yield Heading(shown.title)
    rows = [
        (
            html.token(row.token),
            row.probability,
            "" if row.link is None else Anchor(_("Why this word?"), row.link, "why", "attnviz-page-link"),
        )
        for row in shown.rows
    ]
    yield Table((_("token"), _("probability"), _("why the model says it")), rows)
    yield Note(_("Why is asked of the whole model: why it says the token there, rather than the likeliest other one."))
    yield Caption(
        _(
            "**What you are seeing.** The residual stream after each layer is given to what follows the last one: the "
            "final norm, which takes its scale from that stream, and the output embedding. The top row is what the "
            "model itself says. **What it does not say:** lower layers write for those above them, not for the output "
            "embedding, so that their words may mean little (nostalgebraist 2020, “interpreting GPT: the logit lens”)."
        )
    )


def lens_view(state: EffectsState) -> LensView:
    """Returns what the model would say after each layer. Raises ValueError if it gives no logits of tokens."""
    token = getattr(state.metric, "token", None)
    linearized = state.run.linearized
    compute = partial(layer_predictions, linearized.model, linearized.arguments.kwargs, token or 0)
    work = FORWARDS * state.source.forward_work
    return LensView(state, result_cache().once(compute, "logit lens", state.source, token, work=work), token)
