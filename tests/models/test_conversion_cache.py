"""Converted models on disk: written once, whole or not at all, and never used if they were changed."""

import multiprocessing
import os
import stat
import time

import pytest

from attnviz.models.conversion_cache import MANIFEST, UNFINISHED_SECONDS, UNUSED_SECONDS, converted_folder


@pytest.fixture(autouse=True)
def models(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNVIZ_CACHE", str(tmp_path))
    return tmp_path / "models"


def linked(path, target):
    """A link in the place of a file or a folder."""
    path.unlink()
    path.symlink_to(target)


def piped(path):
    """A pipe, which nobody writes to, in the place of a file."""
    path.unlink()
    os.mkfifo(path)


def write(folder):
    (folder / "config.json").write_text("{}")
    (folder / "weights").write_bytes(b"1234")


def refuse(folder):
    raise AssertionError("It is there.")


def write_slowly(log):
    def write_and_log(folder):
        with open(log, "a") as file:
            file.write("x")
        time.sleep(0.3)
        write(folder)

    converted_folder("model", write_and_log)


def test_a_model_is_converted_once():
    folder = converted_folder("model", write)
    assert sorted(file.name for file in folder.iterdir()) == ["config.json", "manifest.json", "weights"]
    assert converted_folder("model", refuse) == folder
    assert converted_folder("other", write) != folder


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "weights").write_bytes(b"1235"),
        lambda folder: (folder / "weights").unlink(),
        lambda folder: (folder / "tokenizer.json").write_text("{}"),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_text("[]"),
        lambda folder: (folder / "manifest.json").write_text('{"weights'),
        lambda folder: (folder / "manifest.json").write_text("[" * 100_000),
        lambda folder: linked(folder / "manifest.json", "/dev/zero"),
        lambda folder: piped(folder / "manifest.json"),
        lambda folder: (folder / "manifest.json").unlink() or (folder / "manifest.json").mkdir(),
        lambda folder: linked(folder / "weights", "/dev/zero"),
        lambda folder: linked(folder / "weights", (folder / "config.json").rename(folder.parent / "config.json")),
        lambda folder: piped(folder / "weights"),
        lambda folder: (folder / "weights").unlink() or (folder / "weights").mkdir(),
    ],
)
def test_a_damaged_folder_is_written_again(damage):
    folder = converted_folder("model", write)
    damage(folder)
    converted_folder("model", write)
    assert (folder / "weights").read_bytes() == b"1234"
    assert len(list(folder.iterdir())) == 3
    assert converted_folder("model", refuse) == folder


def test_processes_that_start_together_convert_once(tmp_path):
    spawn = multiprocessing.get_context("fork")
    processes = [spawn.Process(target=write_slowly, args=(tmp_path / "log",)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert (tmp_path / "log").read_text() == "x"


@pytest.mark.parametrize("kind", ["file", "pipe", "link", "dangling link", "link to a whole folder"])
def test_what_stands_in_place_of_a_folder_is_replaced_links_too(kind, models, tmp_path):
    whole = converted_folder("other", write)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").touch()
    place = models / "model"
    if kind == "file":
        place.write_text("{}")
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to({"link": tmp_path / "elsewhere", "dangling link": "nowhere"}.get(kind, whole))
    folder = converted_folder("model", write)
    assert not folder.is_symlink()
    assert (folder / "weights").read_bytes() == b"1234"
    assert (tmp_path / "elsewhere" / "file").exists()
    assert (whole / "weights").exists()
    assert converted_folder("model", refuse) == folder


def test_a_lock_that_is_a_link_or_a_pipe_is_not_opened(models, tmp_path):
    models.mkdir()
    (tmp_path / "precious").write_text("mine")
    (models / "model.lock").symlink_to(tmp_path / "precious")
    os.mkfifo(models / "other.lock")
    for key in ("model", "other"):
        with pytest.raises(OSError, match=f"It is a link, or of another kind than attnviz has written.*{key}.lock"):
            converted_folder(key, write)
    assert (tmp_path / "precious").read_text() == "mine"


def test_what_belongs_to_somebody_else_is_neither_read_nor_removed(models, monkeypatch):
    folder = converted_folder("model", write)
    own = os.lstat(folder).st_uid
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    if own == 0:  # what belongs to root is read by all
        assert converted_folder("model", refuse) == folder
        os.chown(folder, 12_345, -1)
    with pytest.raises(OSError, match="It belongs to somebody else"):
        converted_folder("model", write)
    assert (folder / "weights").exists()


def test_a_lock_is_readable_by_its_user_alone(models):
    converted_folder("model", write)
    assert stat.S_IMODE((models / "model.lock").stat().st_mode) == 0o600


def test_without_locks_the_slower_of_two_takes_what_the_other_wrote(models):
    def write_after_another(folder):
        (models / "model.lock").unlink()
        converted_folder("model", write)

    folder = converted_folder("model", write_after_another)
    assert converted_folder("model", refuse) == folder
    assert [path.name for path in models.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, ValueError])
def test_a_conversion_that_fails_leaves_nothing(error, models):
    def fail(folder):
        write(folder)
        raise error("stopped")

    with pytest.raises(error, match="stopped"):
        converted_folder("model", fail)
    assert [path.name for path in models.iterdir()] == ["model.lock"]
    assert (converted_folder("model", write) / "weights").exists()


def test_what_a_killed_conversion_left_is_removed_when_it_is_old(models):
    for name, age in (
        (".model-old", UNFINISHED_SECONDS + 9),
        (".model-new", 9),
        (".other-old", UNFINISHED_SECONDS + 9),
    ):
        (models / name).mkdir(parents=True)
        os.utime(models / name, (time.time() - age,) * 2)
    converted_folder("model", write)
    assert sorted(path.name for path in models.iterdir()) == [".model-new", ".other-old", "model", "model.lock"]


def test_a_folder_that_was_not_used_for_long_is_removed(models):
    unused, used = converted_folder("older version", write), converted_folder("used", write)
    for folder in (unused, used):
        os.utime(folder / MANIFEST, (time.time() - UNUSED_SECONDS - 60,) * 2)
    assert converted_folder("used", refuse) == used
    converted_folder("other", write)
    assert used.exists()
    assert not unused.exists()


def test_a_finished_folder_is_read_where_nothing_can_be_written(models, monkeypatch):
    folder = converted_folder("model", write)
    (models / "model.lock").unlink()
    (models / "model.lock").mkdir()  # opening it for writing fails, as on a read-only disk
    assert converted_folder("model", refuse) == folder
    (models / "other.lock").mkdir()
    with pytest.raises(OSError, match="other"):
        converted_folder("other", write)
