"""What is in the link, and in no visible widget. Streamlit keeps it over reruns, pages and the browser's history."""

import streamlit as st


def link_value(name: str) -> str:
    """Draws a hidden field bound to a link parameter, and returns its text; call it once a run."""
    with st.container(key=f"in-link-{name}"):
        return st.text_input(name, key=name, bind="query-params", label_visibility="collapsed")


def set_link_value(name: str, value: str) -> None:
    """Sets a parameter; call it before `link_value` in a run, as a callback does."""
    st.session_state[name] = value


def link_parameters() -> list[tuple[str, str]]:
    """Returns all parameters of the link, one with several values several times."""
    return [(name, value) for name in st.query_params for value in st.query_params.get_all(name)]
