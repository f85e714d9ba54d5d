"""The pages in the order of the menu, and their common elements."""

import streamlit as st

from attnviz.app_files import ASSETS, PAGES
from attnviz.language import _
from attnviz.server import jobs
from attnviz.server.addresses import FIRST_PAGE
from attnviz.server.page_runs import observation
from attnviz.server.scheduling import page_run
from attnviz.ui import lesson_strip, link_state, presentation, python_code, visitor_language
from attnviz.ui.classroom.teacher import lesson_run, start_button

st.set_page_config("attnviz", ASSETS / "icon.svg", layout="wide", initial_sidebar_state=270)
st.logo(ASSETS / "logo.svg", size="large", icon_image=ASSETS / "icon.svg")
visitor_language.follow()
pages = [
    st.Page(PAGES / "start.py", title=_("Start"), icon=":material/home:", default=True),
    st.Page(PAGES / "explore.py", title=_("Explore"), icon=":material/grid_view:"),
    st.Page(PAGES / "lessons.py", title=_("Lessons"), icon=":material/school:"),
    st.Page(PAGES / "lookup.py", title=_("Lookup"), icon=":material/book_2:"),
    st.Page(PAGES / "steps.py", title=_("Steps"), icon=":material/steps:"),
    st.Page(PAGES / "path.py", title=_("Path"), icon=":material/route:"),
    st.Page(PAGES / "scores.py", title=_("Scores"), icon=":material/balance:"),
    st.Page(PAGES / "masks.py", title=_("Masks"), icon=":material/compare:"),
    st.Page(PAGES / "transformer.py", title=_("Transformer"), icon=":material/translate:"),
    st.Page(PAGES / "models.py", title=_("Models"), icon=":material/neurology:"),
]
page = st.navigation(pages, position="top")
link_state.follow_history(visitor_language.link_parameter())
visitor_language.keep_in_link()
requested = link_state.requested_values()
presentation.switch(pages, page, start_button(page.url_path))
name = page.url_path or FIRST_PAGE
with observation(name), page_run(), jobs.page_run(), lesson_run(name, page.title):
    with lesson_strip.strip(name):
        page.run()
    with st.container(key="page-foot", horizontal=True, horizontal_alignment="right", vertical_alignment="center"):
        python_code.show(name)
        visitor_language.show_others()
    link_state.name_refused(requested)
