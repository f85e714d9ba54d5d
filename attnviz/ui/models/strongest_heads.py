"""The heads that do mainly one thing, on random repeated tokens beside those on the text, as a table."""

from collections.abc import Sequence

from attnviz.analysis.strongest_heads import MOST_OF, ROLES, StrongHead, strongest_heads
from attnviz.formatting import number, percent
from attnviz.language import N_, _
from attnviz.layer import Layer, head_name
from attnviz.link import page_address
from attnviz.page import html
from attnviz.state.models import ModelsState, offered_metrics
from attnviz.state.source_field import head_names
from attnviz.ui.link_state import link_parameters, unlinked
from attnviz.ui.models.metrics_table import MetricsTable

SHOWN = 4  # heads in a cell
HEADINGS = (N_("Mostly on"), N_("On random repeated tokens"), N_("On this text"))
ABOUT = N_(
    "The heads that give at least {least} of their attention to these keys. On random tokens nothing else can be "
    "followed than the order of the tokens and their repetition."
)


def roles_table(text: MetricsTable, random: MetricsTable | None) -> html.Markup:
    """Returns the table; until the metrics on random tokens are there, None, they are still to come."""
    layers, offered = text.layers, offered_metrics(text.layers)
    sides = [strongest_heads(one.metrics) if one else None for one in (random, text)]
    rows = [
        (_(metric.name), *("…" if side is None else _cell(layers, side[metric.name]) for side in sides))
        for metric in ROLES
        if metric.name in offered
    ]
    about = html.note(_(ABOUT, least=percent(MOST_OF)))
    return html.table([*map(_, HEADINGS)], rows, class_="attnviz-table attnviz-roles") + about


def short_name(layers: Sequence[Layer], layer: int, head: int) -> str:
    """Returns the name of a head in a picture: L18H6, or the whole name where layers are of several stacks."""
    if len({(one.id.stack, one.id.cross) for one in layers}) > 1:
        return head_name(layers[layer].id, head)
    return f"L{layers[layer].id.number or layer}H{head}"


def _cell(layers: Sequence[Layer], heads: Sequence[StrongHead]) -> html.Markup:
    """Returns the strongest of the heads, each a link that opens it, and how many more there are."""
    shown = [
        html.element("span", _link(layers, one, short_name(layers, one.layer, one.head)), f" {number(one.share)}")
        for one in heads[:SHOWN]
    ]
    more = len(heads) - len(shown)
    if more:
        shown.append(html.element("span", _("and {count} more", count=more)))
    return html.join(shown or "–", " ")


def _link(layers: Sequence[Layer], one: StrongHead, name: str) -> html.Markup:
    """Returns a link to this page with the head; the name alone where the page shows what no link has."""
    if unlinked.get():
        return html.element("b", name)
    chosen = {
        ModelsState.layer.parameter: layers[one.layer].name,
        ModelsState.head.parameter: head_names(layers[one.layer].inputs.heads)[one.head],
    }
    kept = [(parameter, value) for parameter, value in link_parameters() if parameter not in chosen]
    return html.element("a", name, href=f"./{page_address('models', [*kept, *chosen.items()])}", target="_self")
