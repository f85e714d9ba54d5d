"""What the teacher shows to a class."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from attnviz.classroom.class_record import CLASS, ClassRecord, encode
from attnviz.classroom.page_link import check_link
from attnviz.classroom.store import Values

PICTURE = "picture"  # the section with the picture, by its id


@dataclass(frozen=True)
class View:
    """What the teacher shows: the link of the page, its title, and the id of its picture, which `LiveClass.picture`
    returns."""

    link: str
    title: str
    picture_id: str


class TeacherView(ClassRecord):
    """The view of a class."""

    def publish(self, link: str, title: str, picture: bytes) -> None:
        """Shows a page to all, with the picture that followers draw; the picture before is deleted. Raises ValueError
        if the link is not that of a page."""
        check_link(link)
        picture_id = hashlib.sha256(picture).hexdigest()[:32]
        published = encode(asdict(View(link, title, picture_id)))

        def change(stored: bytes | None) -> tuple[Mapping[str, Values], None]:
            sections: dict[str, Values] = {CLASS: {"view": published}}
            before = json.loads(stored)["picture_id"] if stored else None
            if before != picture_id:
                sections[PICTURE] = {picture_id: picture} | ({before: None} if before else {})
            return sections, None

        self._change("view", change)

    def view(self) -> View | None:
        """Returns what the teacher shows at this moment, if anything."""
        published = self._class().get("view")
        return View(**json.loads(published)) if published else None

    def picture(self, picture_id: str) -> bytes | None:
        """Returns the picture of a view; None if the teacher shows another one by now."""
        return self.store.get(self.code, PICTURE, picture_id)
