"""The network of Lookup; the browser code begins in streamlit.js."""

from attnviz.pages.lookup.network import network_content
from attnviz.pages.lookup.state import LookupState
from attnviz.ui.server import scripts


def draw_network(state: LookupState) -> None:
    """Draws the network."""
    scripts.mount("ui/network")(key="network", data=network_content(state))
