"""Chats as inputs: the text of the chat template, the role of each token, and templates that are hostile."""

import pytest

from attnviz.models import tokenizer_process
from attnviz.models.chat import ChatMessage, encode_chat
from attnviz.models.loading import inspect_folder
from attnviz.models.smollm2 import smollm2
from attnviz.models.tokenizer_process import TokenizerProcess
from tests.support.tiny_models import add_chat_template, byte_level

CHAT = (
    ChatMessage("system", "You are brief."),
    ChatMessage("user", "user: 2+2? 🦊 "),
    ChatMessage("assistant", "4"),
    ChatMessage("user", "Why?\n\nReally <|im_end|> so?"),
)
TRIMMING = "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}<|endoftext|>{% endfor %}[assistant]"


@pytest.fixture
def llama_with(copied):
    """A function that loads a tiny Llama with a chat template, whose tokenizer runs in a process of its own."""

    def load(template, tokenizer=None):
        folder = copied("llama", without=("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"))
        (tokenizer or byte_level()).save_pretrained(folder)
        return inspect_folder(add_chat_template(folder, template)).load()

    return load


def runs(tokens, roles):
    """The text of each role, as the tokens have it: consecutive tokens of a role together."""
    joined = []
    for token, role in zip(tokens.tokens, roles, strict=True):
        if not joined or joined[-1][0] != role:
            joined.append([role, ""])
        joined[-1][1] += token
    return [tuple(part) for part in joined]


def test_smollm2_gets_the_ids_that_transformers_gives():
    model = smollm2()
    batch, tokens, roles = encode_chat(model, CHAT)
    said = [message._asdict() for message in CHAT]
    expected = model.tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=True)
    assert batch["input_ids"].tolist() == [expected["input_ids"]]
    assert batch["attention_mask"].tolist() == [expected["attention_mask"]]
    assert len(tokens.tokens) == len(roles) == batch["input_ids"].shape[1]


def test_each_token_has_the_role_of_its_message():
    _batch, tokens, roles = encode_chat(smollm2(), CHAT[:1] + CHAT[2:])
    ends = ("", "<|im_end|>\n<|im_start|>")
    assert [role for role, _text in runs(tokens, roles)] == ["", "system", "", "assistant", "", "user", ""]
    by_role = [text for role, text in runs(tokens, roles) if role]
    assert by_role[:2] == ["You are brief.", "4"]
    assert [text.count(ends[1][:10]) for role, text in runs(tokens, roles) if not role] == [0, 1, 1, 1]
    special = [tokens.tokens[i] for i in tokens.special]
    assert special == ["<|im_start|>", "<|im_end|>"] * 3 + ["<|im_end|>", "<|im_start|>"]
    assert runs(tokens, roles)[-1][1].endswith("assistant\n")


def test_a_system_message_of_the_template_is_the_templates_own():
    _batch, tokens, roles = encode_chat(smollm2(), [ChatMessage("user", "Hi")])
    [(_, before), (role, text), _after] = runs(tokens, roles)
    assert "You are a helpful AI assistant named SmolLM" in before
    assert (role, text) == ("user", "Hi")


def test_a_template_that_strips_runs_in_the_process_of_the_tokenizer(llama_with):
    model = llama_with(TRIMMING)
    assert isinstance(model.tokenizer, TokenizerProcess)
    batch, tokens, roles = encode_chat(model, [ChatMessage("user", "  user "), ChatMessage("assistant", "fox")])
    parts = [("", "[user]"), ("user", "user"), ("", "<|endoftext|>[assistant]"), ("assistant", "fox")]
    assert runs(tokens, roles) == [*parts, ("", "<|endoftext|>[assistant]")]
    assert [tokens.tokens[i] for i in tokens.special] == ["<|endoftext|>"] * 2
    text = "[user]user<|endoftext|>[assistant]fox<|endoftext|>[assistant]"
    assert batch["input_ids"].tolist() == [byte_level()(text)["input_ids"]]


def test_a_template_that_changes_a_content_leaves_it_without_a_role(llama_with):
    model = llama_with("{% for m in messages %}{{ m.content | upper }};{% endfor %}")
    _batch, _tokens, roles = encode_chat(model, [ChatMessage("user", "FOX"), ChatMessage("user", "dog")])
    assert list(dict.fromkeys(roles)) == ["user", ""]


def test_a_template_without_the_messages(llama_with):
    _batch, tokens, roles = encode_chat(llama_with("fox"), CHAT)
    assert runs(tokens, roles) == [("", "fox")]


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{ raise_exception('Roles must alternate') }}", "fails. The reason given is: “Roles must alternate”. Change"),
        ("{% for i in range(10**9) %}{% endfor %}", "fails. The reason given is: “Range too big"),
        ("{{ 'a' * 9999999999 }}", "for its chat template"),
        ("{{ 'a' * 17000000 }}", "returns more than 32 MB for its chat template"),
        ("{{ ''.__class__.__mro__ }}", "fails. The reason given is: “access to attribute '__class__'"),
        ("{{ messages.append(1) }}", "fails. The reason given is: “access to attribute 'append'"),
        ("{% include '/etc/passwd' %}", "fails. The reason given is: “no loader for this environment specified”"),
        ("{% for", "fails. The reason given is: “"),
        ("{{ messages[0].content.nothing.here }}", "fails. The reason given is: “"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "fails. The reason given is: “maximum recursion depth"),
    ],
)
def test_a_hostile_template_ends_with_a_sentence(llama_with, template, words):
    assert words in refused(llama_with(template))


def test_a_template_that_never_ends(llama_with, monkeypatch):
    model = llama_with("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}")
    monkeypatch.setattr(tokenizer_process, "SECONDS", 1)
    assert "takes more than 1 seconds for its chat template" in refused(model)


def refused(model):
    """The sentence with which the template of a model is refused, after which its tokenizer works as before."""
    with pytest.raises(ValueError, match=r"^The tokenizer of llama ") as error:
        encode_chat(model, [ChatMessage("user", "Hi")])
    assert str(error.value).endswith("Change the messages, or give it a plain text.")
    assert model.encode("the fox").source.tokens
    return str(error.value)


def test_a_chat_that_is_too_long(llama_with):
    with pytest.raises(ValueError, match=r"tokens"):
        encode_chat(llama_with(TRIMMING), [ChatMessage("user", "fox " * 3_000)])


def test_a_model_without_a_chat_template_says_so(loaded):
    assert not loaded["llama"].has_chat_template
    assert smollm2().has_chat_template
    with pytest.raises(ValueError, match="llama has no chat template, so it reads no chats"):
        encode_chat(loaded["llama"], CHAT)


def test_a_message_of_another_role():
    with pytest.raises(ValueError, match="by one of system, user, assistant; this one is by “tool”"):
        encode_chat(smollm2(), [ChatMessage("tool", "4")])


def test_what_the_template_of_the_wheel_refuses(monkeypatch):
    monkeypatch.setattr(smollm2().tokenizer, "chat_template", "{{ raise_exception('No') }}")
    with pytest.raises(ValueError, match=r"The chat template of SmolLM2-135M-Instruct refuses these messages.*“No”"):
        encode_chat(smollm2(), CHAT)


def test_a_tokenizer_that_does_not_say_where_its_tokens_are(llama_with, monkeypatch):
    model = llama_with(TRIMMING)
    monkeypatch.setattr(model.tokenizer, "is_fast", False)
    _batch, tokens, roles = encode_chat(model, [ChatMessage("user", "fox")])
    assert len(roles) == len(tokens.tokens)
    assert not any(roles)
