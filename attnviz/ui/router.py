"""The menu, the page that a visitor opens, and the common elements of all pages."""

from functools import partial

import streamlit as st

from attnviz.base.app_files import ASSETS
from attnviz.page.result_cache import run_results
from attnviz.ui import lesson_strip, link_state, page_menu, presentation, python_code, visitor_language
from attnviz.ui.classroom.teacher import lesson_run, start_button
from attnviz.ui.field_widgets import show_error
from attnviz.ui.server import jobs
from attnviz.ui.server.addresses import FIRST_PAGE
from attnviz.ui.server.page_runs import observation, page_failure
from attnviz.ui.server.scheduling import page_run

st.set_page_config("attnviz", ASSETS / "icon.svg", layout="wide", initial_sidebar_state=270)
st.logo(ASSETS / "logo.svg", size="large", icon_image=ASSETS / "icon.svg")
visitor_language.follow()
pages = page_menu.page_entries()
page = st.navigation(pages, position="top", expanded=True)
link_state.follow_history(visitor_language.link_parameter())
visitor_language.keep_in_link()
requested = link_state.requested_values()
name = page.url_path or FIRST_PAGE
presentation.switch(pages, page, partial(start_button, page.url_path))
page_menu.mark_group(name)
with observation(name), page_run(), jobs.page_run(), run_results(), lesson_run(name, page.title):
    with lesson_strip.strip(name):
        try:
            page.run()
        except Exception as problem:  # noqa: BLE001 - what is drawn stays, and the lesson and the menus around it
            message = page_failure(problem)
            show_error(str(problem) if isinstance(problem, ValueError) else message)
    with st.container(key="page-foot", horizontal=True, horizontal_alignment="right", vertical_alignment="center"):
        python_code.show(name)
        visitor_language.show_others()
    link_state.name_refused(requested)
