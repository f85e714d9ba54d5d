"""A text that a model writes as a source: how tokens are chosen, and what is said before in a chat."""

from dataclasses import replace

import pytest

from attnviz.models.chat import encode_chat
from attnviz.models.sampling import Sampler
from attnviz.models.token_choices import TokenChoice
from attnviz.sources.written import Written
from tests.support.tiny_models import add_chat_template

PROMPT = "the cat sat"
CHAT = Written("the fox", is_chat=True, tokens=4, earlier=("a dog", "the lazy dog"))


@pytest.fixture
def chat(copied):
    return replace(CHAT, name=str(add_chat_template(copied("llama"))), system="the fox stops")


def test_a_chat_is_read_with_its_system_message_and_what_was_said_before(chat):
    assert [tuple(message) for message in chat.messages] == [
        ("system", "the fox stops"),
        ("user", "a dog"),
        ("assistant", "the lazy dog"),
        ("user", "the fox"),
    ]
    text, model = chat.write(), chat.model()
    batch, tokens, roles = encode_chat(model, chat.messages)
    assert text.steps[0].trace[0].inputs.query_ids == tuple(batch["input_ids"][0].tolist())
    assert (text.prompt_tokens, text.roles) == (tokens.tokens, (*roles, *["assistant"] * 4))
    said = "system: the fox stops; user: a dog; assistant: the lazy dog; user: the fox; assistant:"
    assert "".join(text.prompt_tokens).replace("<s>", "").strip() == said


def test_the_answer_of_a_chat_is_its_text_without_special_tokens(chat):
    model, texts = chat.model(), []
    ids = (*model.text_inputs.word_ids("the dog stops"), model.model.generation_config.eos_token_id)
    ended = replace(chat, tokens=len(ids), choices=(TokenChoice(0, ids),))
    text = ended.write(lambda share, part: texts.append(part.answer))
    assert text.tokens[-1] == "</s>"
    assert text.answer.strip() == "the dog stops"
    assert texts == [""] * len(ids)
    assert not replace(ended, is_chat=False).write().answer


def test_what_was_said_before_changes_the_answer_in_a_chat_alone(chat):
    alone, other = replace(chat, earlier=()), replace(chat, earlier=("a dog", "the fox"))
    first = [[step.probability for step in source.write().steps] for source in (chat, alone, other)]
    assert first[0] != first[1] != first[2] != first[0]
    plain = replace(chat, is_chat=False)
    assert plain.write().tokens == replace(plain, earlier=()).write().tokens


def drawn(folder, **sampling):
    text = Written(PROMPT, str(folder), sampling=Sampler(**sampling), tokens=8).write()
    return [step.token_id for step in text.steps]


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_a_seed_draws_the_same_text_again_and_another_one_another(saved, name):
    texts = [drawn(saved / name, temperature=2.0, seed=seed) for seed in (1, 1, 2, 3)]
    assert texts[0] == texts[1]
    assert len({tuple(text) for text in texts}) == 3


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_the_likeliest_of_one_token_is_that_without_chance(saved, name):
    greedy = drawn(saved / name)
    assert drawn(saved / name, temperature=2.0, top_k=1, seed=5) == greedy
    assert drawn(saved / name, temperature=2.0, top_p=1e-9, seed=5) == greedy
    assert drawn(saved / name, temperature=2.0, seed=5) != greedy
