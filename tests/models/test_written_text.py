"""Texts that a model writes are continued, shared, and branch; their limits hold."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import attnviz
from attnviz.models import written_text
from attnviz.models.loading import inspect_folder
from attnviz.models.sampling import Sampler
from attnviz.models.token_choices import TokenChoice, format_choices, parse_choices
from attnviz.models.written_text import Ending, Writer, Writers, writers_of

PROMPT = "the cat sat"
LIKELIEST, DRAWN = Sampler(), Sampler(temperature=1.0, seed=3)


@pytest.fixture(params=["llama", "t5"])
def model(loaded, request):
    model = loaded[request.param]
    model.model.generation_config.eos_token_id = None
    return model


def ids(text):
    return [step.token_id for step in text.steps]


@pytest.mark.parametrize("sampler", [LIKELIEST, DRAWN], ids=["likeliest", "drawn"])
def test_a_text_that_goes_on_is_the_one_that_is_written_at_once(model, sampler):
    writers, progress = Writers(1 << 30), []
    part = writers.write(3, model, PROMPT, sampler, ())
    whole = writers.write(8, model, PROMPT, sampler, (), lambda share, text: progress.append((share, len(text.steps))))
    assert progress == [(count / 8, count) for count in range(4, 9)]  # what is there is not written again
    options = {"temperature": sampler.temperature, "seed": sampler.seed}
    batch = model.text_inputs.encode(PROMPT)[0]
    expected = [step.token_id for step in attnviz.writing(model.model, model.tokenizer, batch, 8, **options)]
    assert (ids(part), ids(whole)) == (expected[:3], expected)
    assert (part.ending, whole.ending) == (Ending.COUNT, Ending.COUNT)
    assert len(writers.write(5, model, PROMPT, sampler, ()).steps) == 5


@pytest.mark.parametrize("sampler", [LIKELIEST, DRAWN], ids=["likeliest", "drawn"])
def test_a_branch_is_the_same_with_and_without_the_text_it_branches_from(model, sampler):
    root = Writers(1 << 30)
    own = ids(root.write(8, model, PROMPT, sampler, ()))
    other = root.write(8, model, PROMPT, sampler, ()).steps[3].alternatives[-1].token_id
    choices = (TokenChoice(3, (other, own[0])),)
    branches = [writers.write(8, model, PROMPT, sampler, choices) for writers in (root, Writers(1 << 30))]
    for branch in branches:
        assert ids(branch)[:5] == [*own[:3], other, own[0]]
    assert ids(branches[0]) == ids(branches[1])
    for layer, alone in zip(branches[0].trace, branches[1].trace, strict=True):
        torch.testing.assert_close(
            layer.maps(slice(None), slice(None)),
            alone.maps(slice(None), slice(None)),
            rtol=0,
            atol=1e-5,
            equal_nan=True,
        )


def test_the_tokens_are_those_of_the_prompt_and_the_written_ones(model):
    text = Writers(1 << 30).write(2, model, PROMPT, LIKELIEST, ())
    *prompt, first, second = text.tokens
    assert "".join(token for i, token in enumerate(prompt) if i not in text.special).replace(" ", "") == "thecatsat"
    assert [first, second] == [step.token for step in text.steps]
    assert text.prompt_length - text.encoder_length == (1 if model.is_encoder_decoder else len(prompt))
    queries = {layer.inputs.queries for layer in text.trace if layer.id.stack != "encoder"}
    assert queries == {text.prompt_length - text.encoder_length + 1}  # of the last written token there is none


def test_readers_of_one_text_share_it(model):
    writers = Writers(1 << 30)
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda count: writers.write(count, model, PROMPT, LIKELIEST, ()), [8, 2, 8, 5]))
    assert [len(text.steps) for text in texts] == [8, 2, 8, 5]
    assert all(step is own for text in texts for step, own in zip(text.steps, texts[0].steps, strict=False))


@pytest.mark.parametrize("fails_after", [0, 3])
def test_a_text_that_has_failed_is_begun_anew(model, monkeypatch, fails_after):
    writing, calls = written_text.writing, []

    def failing(*arguments, **options):
        calls.append(1)
        for number, step in enumerate(writing(*arguments, **options)):
            if len(calls) == 1 and number == fails_after:
                raise MemoryError
            yield step

    monkeypatch.setattr(written_text, "writing", failing)
    writers = Writers(1 << 30)
    with pytest.raises(MemoryError):
        writers.write(6, model, PROMPT, LIKELIEST, ())
    assert ids(writers.write(6, model, PROMPT, LIKELIEST, ())) == ids(
        Writers(1 << 30).write(6, model, PROMPT, LIKELIEST, ())
    )


def test_it_ends_with_the_end_token_and_at_the_limits(loaded, monkeypatch):
    model = loaded["llama"]
    own = ids(Writers(1 << 30).write(6, model, PROMPT, LIKELIEST, ()))
    monkeypatch.setattr(model.model.generation_config, "eos_token_id", own[3])
    ended = Writers(1 << 30).write(6, model, PROMPT, LIKELIEST, ())
    assert (ids(ended), ended.ending) == (own[: own.index(own[3]) + 1], Ending.END_TOKEN)
    monkeypatch.setattr(model.model.generation_config, "eos_token_id", None)
    monkeypatch.setenv("ATTNVIZ_WRITE_TOKENS", "4")
    limited = Writers(1 << 30).write(6, model, PROMPT, LIKELIEST, ())
    assert (len(limited.steps), limited.ending) == (4, Ending.LIMIT)
    monkeypatch.setattr(written_text, "writing_seconds", lambda: -1)
    late = Writers(1 << 30).write(6, model, PROMPT, LIKELIEST, ())
    assert (len(late.steps), late.ending) == (1, Ending.SECONDS)  # a text has one token at least


def test_memory_is_bounded_and_the_latest_text_stays(loaded):
    model = loaded["gpt2"]
    writer = Writer(model, PROMPT, LIKELIEST, ())
    writer.write(4)
    writers = Writers(2 * writer.size)
    for prompt in ("the cat sat", "the dog sat", "a cat sat", "the cat sat"):
        writers.write(4, model, prompt, LIKELIEST, ())
    assert [key[0] for key in writers._writers] == ["a cat sat", "the cat sat"]


@pytest.mark.parametrize(
    "text", ["5", "5.x", "1.2-1.3", "4.1.2-5.3", "-1.2", "1.2-", "9999999.1", "1." + "2." * 99 + "3"]
)
def test_other_texts_are_not_choices(text):
    with pytest.raises(ValueError, match="chosen tokens"):
        parse_choices(text)


def test_choices_are_written_as_they_are_read():
    choices = (TokenChoice(0, (7042,)), TokenChoice(5, (260, 3575)), TokenChoice(7, (1,)))
    assert parse_choices(format_choices(choices)) == choices
    assert parse_choices("") == ()


def test_a_prompt_without_room_is_refused(loaded, monkeypatch):
    model = loaded["gpt2"]
    monkeypatch.setattr(written_text, "MOST_READ", 2)
    with pytest.raises(ValueError, match=r"has [0-9]+ tokens; gpt2 writes after at most 2 here"):
        Writers(1 << 30).write(2, model, PROMPT, LIKELIEST, ())


def test_texts_do_not_keep_a_model_that_is_dropped(copied):
    model = inspect_folder(copied("gpt2")).load()
    assert writers_of(model) is writers_of(model)
    writers_of(model).write(2, model, PROMPT, LIKELIEST, ())
    dropped = weakref.ref(model.model)
    del model
    gc.collect()
    assert dropped() is None
