"""Chats as inputs of language models, written as the model's chat template says.

A template that came with a model is not trusted: it is rendered by transformers' sandbox, in the limited process of its
tokenizer.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jinja2
from torch import Tensor

from attnviz.base.formatting import quoted
from attnviz.base.language import value_error
from attnviz.models.image_text_inputs import ImageTextInputs
from attnviz.models.model import LoadedModel
from attnviz.models.readable_errors import INPUT_ERRORS, reason
from attnviz.models.text_inputs import Tokens

ROLES = ("system", "user", "assistant")
MARK = "\ue000{}\ue001"  # in the place of a message's content; of characters that no text has


class ChatMessage(NamedTuple):
    """A message of a chat, by the "system", the "user" or the "assistant"."""

    role: str
    content: str


def encode_chat(
    model: LoadedModel, messages: Sequence[ChatMessage], image: bytes | None = None
) -> tuple[dict[str, Tensor], Tokens, tuple[str, ...]]:
    """Returns the batch and the tokens of a chat that the model is to answer, and the role of each token; the first
    message of the user may come with an image.

    The role of tokens that the template adds is "", and so is that of all tokens of a tokenizer that does not say which
    characters they stand for. Raises ValueError if the model has no chat template, if its template refuses the messages
    or takes too much time or memory, and as `TextInputs.encode` does.
    """
    image_inputs = model.image_inputs if isinstance(model.image_inputs, ImageTextInputs) else None
    text, frame = _render(model, messages, image_inputs is not None and image is not None)
    roles = [""] * len(text)  # by character
    for message, start, end in _places(text, frame, messages):
        roles[start:end] = [message.role] * (end - start)
    if image_inputs is None or image is None:
        batch, tokens = model.text_inputs.encode(text, has_special=True)
    else:
        with model.refusals():
            batch, tokens, (start, end, new_end) = image_inputs.encode(text, image, has_special=True)
        roles[start:end] = [""] * (new_end - start)
    return batch, tokens, tuple(next(filter(None, roles[start:end]), "") for start, end in tokens.spans)


def _render(model: LoadedModel, messages: Sequence[ChatMessage], has_image: bool) -> list[str]:
    """Returns the text of a chat, and that with a mark in the place of each content, both with what stands for an
    image in the first message of the user, if there is one."""
    if not model.has_chat_template:
        raise value_error(
            "{name} has no chat template, so it reads no chats. Give it a plain text, or take a model that was trained "
            "for chats.",
            name=model.name,
        )
    for message in messages:
        if message.role not in ROLES:
            raise value_error(
                "A message of a chat is by one of {roles}; this one is by {role}.",
                roles=", ".join(ROLES),
                role=quoted(message.role),
            )
    marked = [ChatMessage(message.role, MARK.format(i)) for i, message in enumerate(messages)]
    chats: list[list[dict[str, Any]]] = [[message._asdict() for message in chat] for chat in (messages, marked)]
    for chat in chats if has_image else ():
        for each in chat:
            each["content"] = [{"type": "text", "text": each["content"]}]
        next(each for each in chat if each["role"] == "user")["content"].insert(0, {"type": "image"})
    try:
        return model.tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
    except (jinja2.TemplateError, *INPUT_ERRORS) as error:
        raise value_error(
            "The chat template of {name} refuses these messages. The reason given is: {reason}",
            name=model.name,
            reason=reason(error),
        ) from error


def _places(text: str, frame: str, messages: Sequence[ChatMessage]) -> Iterator[tuple[ChatMessage, int, int]]:
    """Yields the messages that a text has, and where their contents start and end, as far as the text is what the
    template adds, `frame`, with the contents in the places of the marks."""
    by_mark = {MARK.format(i): message for i, message in enumerate(messages)}
    parts = re.split(f"({'|'.join(by_mark)})", frame)
    start = len(parts[0])
    for mark, after in zip(parts[1::2], parts[2::2], strict=True):
        message = by_mark[mark]
        # Many templates strip the contents.
        forms = (message.content, message.content.strip(), message.content.lstrip(), message.content.rstrip())
        content = next((form for form in forms if text.startswith(form + after, start)), None)
        if content is None:
            return
        yield message, start, start + len(content)
        start += len(content) + len(after)
