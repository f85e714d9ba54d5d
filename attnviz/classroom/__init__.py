"""Live classes: a teacher's page that everybody sees, questions to the room, and what it answers."""

from attnviz.classroom.live_class import Classes, LiveClass, Message, Poll, Teaching, View, page_link
from attnviz.classroom.question import (
    Question,
    cells_question,
    choice_question,
    head_question,
    step_question,
    weights_question,
)
from attnviz.classroom.results import Results
from attnviz.classroom.store import Part, StoreError, UnknownClass, Version, open_store

__all__ = [
    "Classes", "LiveClass", "Message", "Part", "Poll", "Question", "Results", "StoreError", "Teaching", "UnknownClass",
    "Version", "View", "cells_question", "choice_question", "head_question", "open_store", "page_link", "step_question",
    "weights_question",
]  # fmt: skip
