"""One module binds widgets to the link, and one keeps what a session has; others that do so say why in a comment."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BINDING = {"attnviz/ui/field_widgets.py"}
SESSION = {
    "attnviz/ui/session_values.py",
    "attnviz/ui/link_state.py",
    "attnviz/ui/server/streamlit_internals.py",
}


def binds(tree: ast.AST) -> Iterator[int]:
    """Yields the lines that bind a widget, or name the value that does."""
    for node in ast.walk(tree):
        named = isinstance(node, ast.keyword) and node.arg == "bind" and not is_none(node.value)
        if named or (isinstance(node, ast.Constant) and node.value == "query-params"):
            yield node.lineno


def names_session(tree: ast.AST) -> Iterator[int]:
    """Yields the lines that name the state of the session."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr="session_state") | ast.Name(id="session_state") | ast.alias(name="session_state"):
                yield node.lineno
            case ast.Constant(value="session_state"):
                yield node.lineno


def is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


FILES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in [ROOT / "app.py", *(ROOT / "pages").glob("*.py"), *(ROOT / "attnviz").rglob("*.py")]
}
TREES = {
    path: ast.parse(text)
    for path, text in FILES.items()
    if "bind" in text or "query-params" in text or "session_state" in text
}
FOUND = {
    name: {path: [*look(tree)] for path, tree in TREES.items()}
    for name, look in (("binding", binds), ("session", names_session))
}


@pytest.mark.parametrize(("name", "there"), [("binding", BINDING), ("session", SESSION)])
def test_only_these_files_do(name: str, there: set[str]) -> None:
    elsewhere = {path: lines for path, lines in FOUND[name].items() if lines and path not in there}
    assert not elsewhere
    assert all(FOUND[name][path] for path in there), "a file that no longer does is deleted from the list"


@pytest.mark.parametrize("path", sorted(SESSION))
def test_files_that_reach_into_the_session_say_why(path: str) -> None:
    assert "# session_state: " in FILES[path]


@pytest.mark.parametrize(
    ("program", "look", "expected"),
    [
        ('st.toggle("x", key="x", bind="query-params")', binds, True),
        ('options["bind"] = "query-params"', binds, True),
        ("st.toggle(label, bind=BIND)", binds, True),
        ("draw(field, bind=None)", binds, False),
        ('st.session_state["x"] = 1', names_session, True),
        ("from streamlit import session_state as state", names_session, True),
        ('getattr(st, "session_state")', names_session, True),
        ("SessionState()", names_session, False),
    ],
)
def test_what_is_found(program: str, look, expected: bool) -> None:
    assert bool([*look(ast.parse(program))]) is expected
