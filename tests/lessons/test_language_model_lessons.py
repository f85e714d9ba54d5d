"""What the lessons about SmolLM2 say that their pages do not publish, from the model's own attention."""

import pytest
import torch
from torch import Tensor

from attnviz.lessons.lesson_files import FOLDER, read_lesson
from attnviz.models.model import LoadedModel
from attnviz.models.random_tokens import repeated_random_tokens
from attnviz.models.smollm2 import smollm2
from attnviz.text import EXAMPLE

GERMAN = sorted(FOLDER.glob("de-*.toml"))


def attention(model: LoadedModel, ids: Tensor) -> Tensor:
    """The weights of all heads, (layers, heads, queries, keys), as transformers' own eager attention returns them."""
    before = model.model.config._attn_implementation
    model.model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model.model(input_ids=ids, output_attentions=True)
    model.model.set_attn_implementation(before)
    return torch.cat(output.attentions)


def ids(model: LoadedModel, text: str) -> Tensor:
    return torch.tensor([model.tokenizer(text)["input_ids"]])


def test_the_first_token_is_a_sink_whose_values_are_short() -> None:
    model = smollm2()
    weights = attention(model, ids(model, EXAMPLE))
    assert int((weights[:, :, 1:, 0].mean(-1) > 0.5).sum()) == 200
    with_other_start = attention(model, ids(model, EXAMPLE.removeprefix("The ")))
    assert weights[18, 7, 8, 1] < 0.005  # of “it” on “animal”
    assert with_other_start[18, 7, 7, 0] > 0.995
    values: list[Tensor] = []
    hooks = [
        layer.self_attn.v_proj.register_forward_hook(lambda _module, _args, value: values.append(value[0]))
        for layer in model.model.model.layers
    ]
    attention(model, ids(model, EXAMPLE))
    for hook in hooks:
        hook.remove()
    lengths = torch.stack(values).unflatten(-1, (3, 64)).norm(dim=-1)  # (layers, tokens, kv heads)
    assert lengths[:, 0].mean() / lengths[:, 1:].mean() == pytest.approx(0.28, abs=0.005)


def test_the_strongest_heads_on_repeated_random_tokens() -> None:
    model = smollm2()
    sums = {"induction": torch.zeros(30, 9), "previous": torch.zeros(30, 9)}
    for seed in range(3):
        batch = repeated_random_tokens(model.text_inputs, seed, decoder=False)[0]
        weights, count = attention(model, batch["input_ids"]), batch["input_ids"].shape[1] // 2
        sums["induction"] += torch.stack([weights[:, :, q, q - count + 1] for q in range(count, 2 * count)]).mean(0) / 3
        sums["previous"] += torch.stack([weights[:, :, q, q - 1] for q in range(1, 2 * count)]).mean(0) / 3
    for name, head, share in (("induction", (18, 6), 0.89), ("previous", (16, 0), 0.90)):
        assert divmod(int(sums[name].argmax()), 9) == head
        assert float(sums[name][head]) == pytest.approx(share, abs=0.0051)


def test_the_model_continues_as_the_first_lesson_says() -> None:
    model = smollm2()
    probabilities = model.output(model.encode("The capital of France is")).softmax(-1)
    assert model.tokenizer.decode([int(probabilities.argmax())]) == " Paris"


@pytest.mark.parametrize("path", GERMAN, ids=lambda path: path.stem)
def test_a_translation_has_the_pages_states_and_numbers_of_the_lesson(path) -> None:
    german = read_lesson(path)
    number = path.stem.split("-")[1]
    [english] = map(read_lesson, FOLDER.glob(f"{number}-*.toml"))
    assert german.language == "de"
    assert len(german.steps) == len(english.steps)
    for ours, theirs in zip(german.steps, english.steps, strict=True):
        assert (ours.page, ours.state, ours.holds) == (theirs.page, theirs.state, theirs.holds)
        assert type(ours.check) is type(theirs.check)
