"""The path through a model as one picture, drawn by the browser code that begins in streamlit.js."""

from attnviz.figures.themes import CHANGES, MASKED, WEIGHTS
from attnviz.server import scripts
from attnviz.state.path import PathState
from attnviz.ui import presentation
from attnviz.ui.path.controls import draw_again
from attnviz.ui.path.depths import path_picture
from attnviz.ui.session_values import event_callback
from attnviz.ui.widget_values import choose_option

KEY = "path"
COLORS = {"weights": WEIGHTS, "changes": CHANGES, "masked": MASKED}


def show(state: PathState) -> None:
    """Draws the model, a layer or a part, with the head and the part that are open.

    The root element has data-ready="true" once it is drawn, data-depth, data-stage and data-playing.
    """

    scripts.mount("ui/path")(
        key=KEY,
        data={**path_picture(state), "colors": COLORS, "presenting": presentation.presenting()},
        on_open_change=event_callback(KEY, "open", lambda part: choose_option(PathState.open, part, state)),
        on_head_change=event_callback(KEY, "head", lambda head: choose_option(PathState.head, head, state)),
        on_draw_change=draw_again,
    )
