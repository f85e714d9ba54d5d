"""The lesson editor: a form, the text of the file, and the ways to try, keep and hand on a lesson."""

from attnviz.ui.lesson_editor.editor import is_writing, show

__all__ = ["is_writing", "show"]
