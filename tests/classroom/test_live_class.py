"""A live class, from its code to its end."""

import pytest

from attnviz.classroom.class_record import MOST_PARTICIPANTS
from attnviz.classroom.question import text_question
from attnviz.classroom.store import TooMany, UnknownClass

ADA, BEN = "ada-participant", "ben-participant"


def test_a_class_goes_from_its_code_to_its_end(classes) -> None:
    teaching = classes.start()
    live = classes.open(teaching.code.lower())
    assert live.is_teacher(teaching.key)
    assert not live.is_teacher(teaching.key[:-1])
    live.publish("explore?head=Head+1", "Explore", b"picture")
    published = live.view()
    assert (published.link, live.picture(published.picture_id)) == ("explore?head=Head+1", b"picture")
    live.join(ADA)
    live.join(ADA)
    assert live.participants == 1

    question = text_question("Which?", ["A", "B"], "B")
    first = live.ask(question)
    assert (live.poll().question, live.poll().phase, live.poll().counts) == (question, "open", (0,))
    live.answer(ADA, first, 1, [0])
    live.answer(ADA, first, 1, [1])
    live.answer(BEN, first, 1, [0])
    assert live.poll().counts == (2,)
    live.close()
    with pytest.raises(ValueError, match="has ended"):
        live.answer(ADA, first, 1, [0])
    live.vote_again()
    live.answer(ADA, first, 2, [1])
    live.reveal()
    assert live.results().rounds[0].share_right == 0.5
    assert live.results().rounds[1].share_right == 1
    live.dismiss()
    assert live.poll() is None
    assert [[*one] for one in live.polls()[0].rounds] == [[ADA, BEN], [ADA]]
    live.end()
    with pytest.raises(UnknownClass, match="There is no class"):
        classes.open(teaching.code)
    with pytest.raises(UnknownClass):
        live.ask(question)


def test_who_never_answered_is_removed_with_the_nickname(live) -> None:
    live.remove_silent()
    for name in (ADA, BEN, "cat-participant", "dan-participant"):
        live.join(name)
        live.set_nickname(name, name[:3])
    for number, name in enumerate((ADA, BEN), 1):  # in the first vote of the first question, the second of the next
        poll = live.ask(text_question("Which?", ["A", "B"], "B"))
        if number == 2:
            live.close()
            live.vote_again()
        live.answer(name, poll, number, [0])
    before = live.version
    live.remove_silent()
    assert live.joined() == (ADA, BEN)
    assert set(live.nicknames()) == {ADA, BEN}
    assert live.version.shared > before.shared  # so that those who still follow read the class, and are back
    live.join("dan-participant")
    assert live.participants == 3
    assert [[*one] for record in live.polls() for one in record.rounds] == [[ADA], [BEN]]


def test_a_full_class_has_places_again(live) -> None:
    for number in range(MOST_PARTICIPANTS):
        live.join(f"participant-{number}")
    with pytest.raises(TooMany, match="This class is full"):
        live.join(ADA)
    live.remove_silent()
    live.join(ADA)
    assert live.joined() == (ADA,)
