"""What the link of every page may say besides the state of the page."""

from attnviz.base.language import N_
from attnviz.lessons.lesson_files import LESSON, STEP
from attnviz.page.fields import ChoiceField, TextField
from attnviz.page.state import State


class EveryPageState(State):
    """The language, whether the page is presented, and the lesson that is open or written; most are hidden fields."""

    language = TextField("language", parameter="lang")
    presented = ChoiceField(N_("Present"), {"0": False, "1": True}, parameter="present")
    lesson = TextField("lesson", parameter=LESSON)
    step = TextField("step", parameter=STEP)
    right = TextField("right")  # the numbers of the steps that were answered right
    write = TextField("write")  # the name of the lesson in the editor
