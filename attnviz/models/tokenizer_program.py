"""A program that loads tokenizers, each in a process of its own, and answers requests to them.

A tokenizer that came with a model can take all memory, crash, or never end. Its process is limited, ends itself when a
request takes too long, and ends when the socket that it answers on is closed. It is forked from this program, which has
imported transformers once, without torch.

Requests and replies are lines of JSON: [seconds, method, arguments] and {"result": …} or {"error": …}.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from attnviz.base.limited_process import limit_memory

OPTIONS = {"local_files_only": True, "trust_remote_code": False}
IMAGE_TOKENS = ("image_token_id", "image_token_index")  # of a config of a model that reads images in texts
KEPT = ("input_ids", "attention_mask", "token_type_ids", "special_tokens_mask", "offset_mapping")


class TokenizerMethods:
    """The requests that a tokenizer answers, as JSON."""

    def load(self, folder: str, config: dict[str, Any]) -> dict[str, Any]:
        """Loads the tokenizer of a folder, as the config of its model says."""
        from transformers import AutoTokenizer
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        own = CONFIG_MAPPING[config["model_type"]].from_dict(config)
        self.tokenizer = AutoTokenizer.from_pretrained(folder, config=own, **OPTIONS)
        images = self._load_processor(Path(folder), own) if {*IMAGE_TOKENS} & own.to_dict().keys() else {}
        return {
            "images": images,
            "is_fast": self.tokenizer.is_fast,
            "model_max_length": int(self.tokenizer.model_max_length),
            "chat_template": bool(self.tokenizer.chat_template),
            "special_tokens_map": self.tokenizer.special_tokens_map,
        }

    def _load_processor(self, folder: Path, config: Any) -> dict[str, Any]:
        """Returns what is to be known of the processor of images and texts, or why there is none."""
        from attnviz.models.image_text_processor import ImageTextProcessor

        try:
            self.processor = ImageTextProcessor(folder, config.model_type, self.tokenizer)
            return self.processor.description
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - of any class, about settings that are not trusted
            return {"problem": _first_line(error)}

    def encode_image(self, **arguments: Any) -> dict[str, Any]:
        """Returns what the processor makes of an image and a text."""
        return self.processor.encode(**arguments)

    def encode(self, **arguments: Any) -> dict[str, Any]:
        """Returns the lists of a tokenizer's own call."""
        encoded = self.tokenizer(**arguments)
        lists = {name: encoded[name] for name in KEPT if name in encoded}
        return lists | ({"sequence_ids": encoded.sequence_ids(0)} if self.tokenizer.is_fast else {})

    def decode(self, ids: list[Any], **options: Any) -> Any:
        """Returns the text of token ids, or of each list of them."""
        return self.tokenizer.decode(ids, **options)

    def apply_chat_template(self, chats: list[Any], **options: Any) -> Any:
        """Returns the text of each chat."""
        return self.tokenizer.apply_chat_template(chats, **options)

    def convert_ids_to_tokens(self, ids: list[int]) -> Any:
        """Returns the names of tokens."""
        return self.tokenizer.convert_ids_to_tokens(ids)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error)[:1_000].strip().splitlines()), type(error).__name__)


def answer(connection: socket.socket, size: int) -> None:
    """Answers requests until the connection is closed or one of them fails, using at most `size` bytes of memory."""
    limit_memory(size)
    methods = TokenizerMethods()
    for line in connection.makefile("rb"):
        seconds, name, arguments = json.loads(line)
        signal.setitimer(signal.ITIMER_REAL, seconds)  # whose signal ends the process, whatever is running
        try:
            reply = {"result": getattr(methods, name)(**arguments)}
        except MemoryError:
            return
        except BaseException as error:  # noqa: BLE001 - a panic of the tokenizers library is not an Exception
            reply = {"error": _first_line(error)}
        connection.sendall(json.dumps(reply).encode() + b"\n")
        signal.setitimer(signal.ITIMER_REAL, 0)
        if "error" in reply:  # what a panic leaves behind may not work any more
            return


def main(size: int) -> None:
    """Starts a process for each socket that arrives on standard input, until that is closed."""
    sys.modules["torch"] = None  # type: ignore[assignment]  # transformers would import it: 2 s, 200 MB
    import transformers.models.auto.tokenization_auto  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that ended processes leave nothing
    control = socket.socket(fileno=0)
    while (received := socket.recv_fds(control, 1, 1))[0]:
        with socket.socket(fileno=received[1][0]) as connection:
            if os.fork() == 0:
                control.close()
                try:
                    answer(connection, size)
                finally:
                    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
