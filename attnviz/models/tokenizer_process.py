"""Tokenizers that are not trusted, each in a process with limits of memory and time."""

import json
import math
import os
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from torch import Tensor

from attnviz.base.app_files import PACKAGE_PARENT
from attnviz.base.formatting import byte_size, quoted
from attnviz.base.language import value_error
from attnviz.base.limited_process import ENVIRONMENT

LOADING_SECONDS, SECONDS = 60, 10  # of loading a tokenizer, and of any other request
STARTING_SECONDS = 60  # beside them, of the program that starts the processes, which imports transformers
BYTES = 2 << 30  # of memory, for each tokenizer
IMAGE_SECONDS = 30  # of the processor of an image
IMAGE_BYTES = 96 << 20  # of its reply, in base64
BYTES_OF_TYPE = {"float32": 4, "int64": 8, "bool": 1}  # of what it returns
REPLY_BYTES = 32 << 20  # twice the longest reply for a text of the most characters, a token for each byte


class Launcher:
    """The program that starts the processes. It is started when it is first needed, and again if it has ended."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._program: subprocess.Popen[bytes] | None = None

    def start_process(self) -> socket.socket:
        """Returns a connection to a new process, which ends when the connection is closed."""
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            if self._program is None or self._program.poll() is not None:
                self._start_program()
            socket.send_fds(self._control, [b"\n"], [theirs.fileno()])
        return ours

    def _start_program(self) -> None:
        self._control, theirs = socket.socketpair()
        program = [sys.executable, "-m", "attnviz.models.tokenizer_program", str(BYTES)]
        with theirs:
            self._program = subprocess.Popen(  # noqa: S603
                program,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=PACKAGE_PARENT,
                env=os.environ | ENVIRONMENT,
                start_new_session=True,  # an interrupt in a notebook is not for it
            )


LAUNCHER = Launcher()


class Encoding(dict[str, Any]):
    """The lists that a tokenizer makes of a text, by name."""

    def sequence_ids(self, _batch: int = 0) -> list[int | None]:
        """Returns which text each token is from, 0 or 1, and None for a token that stands for no text."""
        return self["sequence_ids"]


class TokenizerProcess:
    """A tokenizer of a folder, in a process with limits of memory and time, with the methods that `TextInputs` uses of
    a tokenizer of transformers.

    They raise ValueError if the tokenizer fails or takes too much time or memory; the process then ends, and the next
    call starts another. It also ends when this object is no longer used, and with the app.
    """

    is_fast: bool
    model_max_length: int
    chat_template: bool  # whether it has one
    special_tokens_map: dict[str, Any]  # their names, by their roles
    images: dict[str, Any]  # of the processor of images and texts, or why there is none; empty of a model of texts

    def __init__(self, name: str, folder: Path, config: dict[str, Any]) -> None:
        self.name = name  # of the model, in errors
        self._arguments = {"folder": str(folder), "config": config}
        self._lock = Lock()
        self._start()

    def wait(self) -> None:
        """Waits until the tokenizer is loaded. Raises ValueError if it cannot be."""
        with self._lock:
            self._wait()

    def __call__(self, text: str | None = None, **options: Any) -> Encoding:
        """Returns the lists that the tokenizer makes of a text or a pair of texts."""
        return Encoding(self._ask("encode", _is_encoding, text=text, **options))

    def encode_image(self, **arguments: Any) -> Any:
        """Returns what the model's processor makes of an image and a text (`ImageTextProcessor.encode`)."""
        return self._ask(
            "encode_image",
            _is_image_encoding,
            "for this image",
            "Take another image, or another model.",
            subject=f"The image processor of {self.name}",
            seconds=IMAGE_SECONDS,
            most=IMAGE_BYTES,
            **arguments,
        )

    def decode(self, ids: Any, **options: Any) -> Any:
        """Returns the text of token ids, or of each list of them."""
        ids = ids.tolist() if isinstance(ids, Tensor) else ids
        if ids and isinstance(ids[0], list):
            return self._ask("decode", lambda texts: _is_list(texts, str, len(ids)), ids=ids, **options)
        return self._ask("decode", lambda text: isinstance(text, str), ids=ids, **options)

    def apply_chat_template(self, chats: list[list[dict[str, str]]], **options: Any) -> list[str]:
        """Returns the text that the model's chat template makes of each chat."""
        return self._ask(
            "apply_chat_template",
            lambda texts: _is_list(texts, str, len(chats)),
            "for its chat template",
            "Change the messages, or give it a plain text.",
            chats=chats,
            **options,
        )

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str | None]:
        """Returns the names of tokens, and None for those that the tokenizer does not know."""
        return self._ask("convert_ids_to_tokens", lambda names: _is_list(names, str | None, len(ids)), ids=ids)

    def _ask(
        self,
        method: str,
        is_valid: Callable[[Any], bool],
        purpose: str = "for this text",
        advice: str = "Shorten the text, or take another model.",
        subject: str = "",
        seconds: float | int | None = None,
        most: int | None = None,
        **arguments: Any,
    ) -> Any:
        seconds = seconds or SECONDS
        with self._lock:
            self._wait()
            try:
                self._send(seconds, method, arguments)
            except OSError:  # the process has ended since the last reply
                self._start()
                self._wait()
                self._send(seconds, method, arguments)
            return self._receive(is_valid, seconds, purpose, advice, subject, most)

    def _start(self) -> None:
        try:
            self._connection = LAUNCHER.start_process()
            weakref.finalize(self, self._connection.close)
            self._connection.settimeout(STARTING_SECONDS + LOADING_SECONDS)
            self._send(LOADING_SECONDS, "load", self._arguments)
        except OSError as error:
            raise value_error(
                "The tokenizer of {name} cannot be started now. Try again later.", name=self.name
            ) from error
        self._is_loading = True

    def _wait(self) -> None:
        if self._is_loading:
            self._is_loading = False
            loaded = self._receive(_is_description, LOADING_SECONDS, "to be loaded", "Take another model.")
            self.is_fast, self.model_max_length = loaded["is_fast"], loaded["model_max_length"]
            self.chat_template, self.special_tokens_map = loaded["chat_template"], loaded["special_tokens_map"]
            self.images = loaded["images"]

    def _send(self, seconds: float | int, method: str, arguments: dict[str, Any]) -> None:
        self._request_time = time.monotonic()
        self._connection.sendall(json.dumps([seconds, method, arguments]).encode() + b"\n")

    def _receive(
        self,
        is_valid: Callable[[Any], bool],
        seconds: float | int,
        purpose: str,
        advice: str,
        subject: str = "",
        most: int | None = None,
    ) -> Any:
        """Returns the result of the request, or closes the connection, so that the next request starts anew."""
        subject, most = subject or f"The tokenizer of {self.name}", most or REPLY_BYTES
        try:
            line = self._read_line(most)
            if len(line) > most:
                raise value_error(
                    "{subject} returns more than {REPLY_BYTES} {purpose}. {advice}",
                    subject=subject,
                    REPLY_BYTES=byte_size(most),
                    purpose=purpose,
                    advice=advice,
                )
            if not line.endswith(b"\n"):
                late = time.monotonic() - self._request_time >= seconds
                limit = f"{seconds} seconds" if late else f"{byte_size(BYTES)} of memory"
                raise ValueError(f"{subject} takes more than {limit} {purpose}{'' if late else ', or fails'}. {advice}")
            try:
                reply = json.loads(line)
                error = reply.get("error")
                is_known = error is not None or is_valid(reply["result"])
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
                is_known = False
            if not is_known:
                raise value_error("{subject} returns something unexpected. {advice}", subject=subject, advice=advice)
            if error is not None:
                raise value_error(
                    "{subject} fails. The reason given is: {error}. {advice}",
                    subject=subject,
                    error=quoted(error, 200),
                    advice=advice,
                )
        except BaseException:
            self._connection.close()
            raise
        return reply["result"]

    def _read_line(self, most: int) -> bytes:
        """Returns a reply, or what there is of it when the process ends or the reply is too long."""
        line = bytearray()
        with suppress(OSError):
            while not line.endswith(b"\n") and len(line) <= most and (part := self._connection.recv(1 << 20)):
                line += part
        return bytes(line)


def _is_description(value: Any) -> bool:
    kinds = {
        "is_fast": bool,
        "model_max_length": int,
        "chat_template": bool,
        "special_tokens_map": dict,
        "images": dict,
    }
    return all(isinstance(value[name], kind) for name, kind in kinds.items())


def _is_encoding(value: Any) -> bool:
    length = len(value["input_ids"])
    return all(
        _is_list(part, list, length) and all(_is_list(span, int, 2) for span in part)
        if name == "offset_mapping"
        else _is_list(part, int | None if name == "sequence_ids" else int, length)
        for name, part in value.items()
    )


def _is_image_encoding(value: Any) -> bool:
    tiles = value["tiles"]
    return (
        _is_encoding(value["encoding"])
        and isinstance(value["text"], str)
        and _is_list(value["replaced"], int, 3)
        and (tiles is None or _is_list(tiles, int, 3))
        and all(_is_array(*packed) for packed in value["arrays"].values())
    )


def _is_array(kind: str, shape: list[int], content: str) -> bool:
    size = BYTES_OF_TYPE[kind] * math.prod(shape)
    return _is_list(shape, int, len(shape)) and min(shape, default=0) >= 0 and len(content) == 4 * -(-size // 3)


def _is_list(value: Any, kind: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length and all(isinstance(one, kind) for one in value)
