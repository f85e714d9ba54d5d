"""The job that writes a text: shared by all who open the same link, and stopped when nobody looks."""

from functools import cache

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz.language import _
from attnviz.models.written_text import WrittenText
from attnviz.server import jobs
from attnviz.server.scheduling import FairSlots
from attnviz.settings import writers
from attnviz.sources.written import Written
from attnviz.ui import cache as results


@cache
def _line() -> FairSlots:
    return FairSlots(writers())


def request(source: Written, notes: DeltaGenerator) -> tuple[Written, jobs.Job[WrittenText], WrittenText] | None:
    """Returns a source with its job and its text so far, of at least one token. If it cannot be written, the problem is
    shown in `notes`, and the last good one of the same model is returned, or None."""

    def begin() -> Written:
        with notes, st.spinner(_("Reading the prompt …")):
            _job(source).first()
        return source

    good = results.or_last_good("written text", source.subject, begin, lambda: None, notes)
    return None if good is None else (good, job := _job(good), job.first())


def _job(source: Written) -> jobs.Job[WrittenText]:
    return jobs.request(source.write, "written text", source, line=_line(), stops_at_once=True)
