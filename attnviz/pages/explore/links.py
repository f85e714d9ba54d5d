"""Links to Explore from examples of heads that other pages show."""

from attnviz.base.formatting import numbered_tokens
from attnviz.base.link import Link
from attnviz.layer import LayerId
from attnviz.page.source_field import head_names
from attnviz.pages.explore.state import ExploreState
from attnviz.sources import Model


def pinned_query_link(source: Model, layer: LayerId, head: int, queries: tuple[str, ...], query: int) -> Link:
    """Returns the link to the map of a head of a text, with one of its queries pinned."""
    return (
        *ExploreState.source.write(None, source),
        (ExploreState.layer.parameter, str(layer)),
        (ExploreState.head.parameter, head_names(head + 1)[head]),
        (ExploreState.pinned.parameter, numbered_tokens([query], queries[query : query + 1])[0]),
    )
