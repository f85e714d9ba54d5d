"""Lessons: from a dictionary to the heads of a transformer, one page in one state at a time."""

from attnviz.ui import handout, lesson_editor, lesson_list

if handout.is_handout():
    handout.show()
elif lesson_editor.is_writing():
    lesson_editor.show()
else:
    lesson_list.show()
