"""Converted models on disk: written once, whole or not at all, and never used if they were changed."""

import multiprocessing
import os
import time

import pytest

from attnviz.models.conversion_cache import MANIFEST, UNFINISHED_SECONDS, UNUSED_SECONDS, converted_folder


@pytest.fixture(autouse=True)
def models(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNVIZ_CACHE", str(tmp_path))
    return tmp_path / "models"


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
