"""The network of Lookup; the browser code begins in streamlit.js."""

from attnviz.server import scripts
from attnviz.state.lookup import LookupState
from attnviz.views.lookup_network import network_content


def draw_network(state: LookupState) -> None:
    """Draws the network."""
    scripts.mount("ui/network")(key="network", data=network_content(state))
