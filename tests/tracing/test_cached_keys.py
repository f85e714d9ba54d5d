"""The names of keys in caches: they follow the keys, wherever these stand, or are numbers, and it is said."""

import copy

import pytest
import torch
import transformers as hf
from torch import nn
from transformers.cache_utils import DynamicLayer, QuantizedCache

from attnviz.tracing import capture, capturing
from attnviz.tracing.cached_keys import fingerprints
from tests.support.architectures import BOTH, GROUPED, SLIDING, T5

SENTENCE = "have their places in the cache as names: they were not computed in this capture, or have changed since."
SMALL = {"num_hidden_layers": 1, "eos_token_id": None}


def made(make, config):
    torch.manual_seed(0)
    return make(config).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def llama():
    return made(hf.LlamaForCausalLM, hf.LlamaConfig(**GROUPED | SMALL))


def ids(*one):
    return torch.tensor([one])


def named(ids):
    return [f"t{id}" for id in ids]


def keys_of(layer):
    return " ".join(layer.inputs.key_tokens)


def last_layer(model, run, example=0, tokens=named):
    with capturing(model, example=example, tokens=tokens) as traces:
        run(model)
    return traces[-1][0], traces[-1].missing


class Reversed(hf.DynamicCache):
    """A cache that gives its keys in another order than it has them."""

    def update(self, *args, **kwargs):
        return tuple(one.flip(2) for one in super().update(*args, **kwargs))


class Shorter(hf.DynamicCache):
    """A cache that forgets its second key before it is updated."""

    def update(self, key, value, index, *args, **kwargs):
        for layer in self.layers:
            layer.keys, layer.values = (
                torch.cat([one[:, :, :1], one[:, :, 2:]], 2) for one in (layer.keys, layer.values)
            )
        return super().update(key, value, index, *args, **kwargs)


class Ring(DynamicLayer):
    """Five places, of which a new key takes that of the oldest one."""

    count = 0

    def update(self, key, value, *args, **kwargs):
        if not self.is_initialized:
            super().lazy_initialization(key, value)
            self.keys, self.values = key[:, :, :0], value[:, :, :0]
        for one in range(key.shape[2]):
            new = key[:, :, one : one + 1], value[:, :, one : one + 1]
            if self.count < 5:
                self.keys, self.values = (
                    torch.cat(pair, 2) for pair in zip((self.keys, self.values), new, strict=True)
                )
            else:
                self.keys, self.values = self.keys.clone(), self.values.clone()
                self.keys[:, :, self.count % 5], self.values[:, :, self.count % 5] = (part[:, :, 0] for part in new)
            self.count += 1
        return self.keys, self.values

    def get_seq_length(self):
        return self.count


class Unseen(hf.DynamicCache):
    """A cache with an update of its own."""

    def update(self, key, value, index, *args, **kwargs):
        while len(self.layers) <= index:
            self.layers.append(DynamicLayer())
        return self.layers[index].update(key, value)


def chosen(cache, places):
    for layer in cache.layers:
        layer.keys, layer.values = layer.keys[:, :, places], layer.values[:, :, places]


def two_in_turn(model):
    one, other = hf.DynamicCache(), hf.DynamicCache()
    model(ids(3, 4), past_key_values=one)
    model(ids(13, 14), past_key_values=other)
    model(ids(5), past_key_values=one)


def continued(change=None, more=(9,), first=(3, 4, 5, 6, 7, 8), make=hf.DynamicCache):
    """A text whose cache is changed before it goes on."""

    def run(model):
        cache = make()
        model(ids(*first), past_key_values=cache)
        cache = (change and change(cache)) or cache
        model(ids(*more), past_key_values=cache, position_ids=torch.arange(len(first), len(first) + len(more))[None])

    return run


def rotated(cache):
    for layer in cache.layers:
        layer.keys = layer.keys * 1.01


def other_values(cache):
    for layer in cache.layers:
        layer.values = layer.values.flip(2)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (two_in_turn, "t3 t4 t5"),
        (continued(), "t3 t4 t5 t6 t7 t8 t9"),
        (continued(lambda cache: chosen(cache, [0, 4, 5])), "t3 t7 t8 t9"),
        (continued(lambda cache: chosen(cache, [0, 4, 5]), (9, 10)), "t3 t7 t8 t9 t10"),
        (continued(lambda cache: chosen(cache, [5, 1, 3])), "t8 t4 t6 t9"),
        (continued(lambda cache: cache.crop(-3), (9, 9)), "t3 t4 t5 t9 t9"),
        (continued(copy.deepcopy), "t3 t4 t5 t6 t7 t8 t9"),
        (continued(rotated, first=(3, 4)), "0 1 t9"),
        (continued(other_values, first=(3, 4)), "0 1 t9"),
        (continued(first=(3, 4), make=Reversed), "0 1 2"),
        (continued(first=(3, 4), make=Unseen), "0 1 2"),
        (continued(make=Shorter), "t3 t5 t6 t7 t8 t9"),
        (continued(first=(3, 4, 5, 6, 7), make=lambda: hf.Cache(layers=[Ring()])), "t9 t4 t5 t6 t7"),
        (continued(first=(3, 4, 5), make=lambda: QuantizedCache("fp8", hf.LlamaConfig(**SMALL))), "0 1 2 3"),
    ],
)
def test_names_follow_the_keys(llama, run, expected):
    layer, missing = last_layer(llama, run)
    assert keys_of(layer) == expected
    unknown = sum(not name.startswith("t") for name in layer.inputs.key_tokens)
    assert missing == ((f"{unknown} of the {layer.inputs.keys} keys of layer 0 {SENTENCE}",) if unknown else ())
    assert (layer.kind, layer.fidelity) == ("causal", "verified")


@pytest.mark.parametrize(
    ("run", "queries", "keys"),
    [
        (two_in_turn, "2", "0 1 2"),
        (continued(lambda cache: chosen(cache, [0, 4, 5])), "6", "0 4 5 6"),
        (continued(lambda cache: cache.crop(-3), (9, 9)), "3 4", "0 1 2 3 4"),
    ],
)
def test_without_names_numbers_are_positions_in_the_text(llama, run, queries, keys):
    layer, missing = last_layer(llama, run, tokens=())
    assert (" ".join(layer.inputs.query_tokens), keys_of(layer)) == (queries, keys)
    assert not missing


def test_a_cache_filled_outside_has_numbers_and_is_known_from_then_on(llama):
    cache = hf.DynamicCache()
    llama(ids(3, 4, 5), past_key_values=cache)
    layer, missing = last_layer(llama, lambda model: model(ids(6), past_key_values=cache))
    assert (layer.inputs.query_tokens, keys_of(layer)) == (("t6",), "0 1 2 t6")
    assert missing == (f"3 of the 4 keys of layer 0 {SENTENCE}",)
    assert not layer.inputs.key_ids
    trace = capture(llama, {"input_ids": ids(7), "past_key_values": cache}, tokens=named)
    assert keys_of(trace[0]) == "0 1 2 t6 t7"
    trace = capture(llama, {"input_ids": ids(8), "past_key_values": cache}, tokens=list("abcdef"))
    assert (trace[0].inputs.query_tokens, keys_of(trace[0]), trace.missing) == (("f",), "a b c d e f", ())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda cache: cache.batch_select_indices(torch.tensor([1, 0])), "t6 t7 t9"),
        (lambda cache: cache.reorder_cache(torch.tensor([1, 1])), "t6 t7 t9"),
        (lambda cache: cache.batch_repeat_interleave(1), "t4 t5 t9"),
    ],
)
def test_names_follow_the_rows_of_a_batch(llama, change, expected):
    def run(model):
        cache = hf.DynamicCache()
        model(torch.tensor([[4, 5], [6, 7]]), past_key_values=cache)
        change(cache)
        model(torch.tensor([[9], [9]]), past_key_values=cache)

    layer, missing = last_layer(llama, run)
    assert (keys_of(layer), missing) == (expected, ())


def test_keys_that_are_equal_though_their_tokens_are_not_have_numbers():
    model = made(hf.LlamaForCausalLM, hf.LlamaConfig(**GROUPED | SMALL))
    attention = model.model.layers[0].self_attn
    for projection in (attention.k_proj, attention.v_proj):
        projection.weight.zero_()
    layer, missing = last_layer(model, continued(lambda cache: chosen(cache, [0, 4, 5])))
    assert keys_of(layer) == "0 1 2 t9"
    assert missing == (f"3 of the 4 keys of layer 0 {SENTENCE}",)


def test_equal_tokens_in_a_model_without_positions_keep_their_places():
    model = made(hf.T5ForConditionalGeneration, hf.T5Config(**T5 | {"num_layers": 1}))

    def run(model):
        model.generate(ids(3, 4), do_sample=False, num_beams=1, max_new_tokens=5, eos_token_id=-1)

    layer, missing = last_layer(model, run, tokens=())
    assert len({*layer.inputs.key_ids}) < 5  # some token is written twice
    assert (layer.inputs.query_tokens, keys_of(layer), missing) == (("4",), "0 1 2 3 4", ())


@pytest.mark.parametrize(
    ("tokens", "queries", "keys"),
    [(named, "t5", ["t0 t4 t5", "t13 t14 t15"]), ((), "2", ["0 1 2", "0 1 2"])],
)
def test_a_decoder_has_the_names_of_its_own_tokens_and_the_encoders(tokens, queries, keys):
    model = made(hf.BartForConditionalGeneration, hf.BartConfig(**BOTH, forced_eos_token_id=None))
    encoded = model.get_encoder()(ids(13, 14, 15))
    cache = None
    with capturing(model, tokens=tokens) as traces:
        for given in (ids(0, 4), ids(5)):
            result = model(ids(13, 14, 15), None, given, encoder_outputs=encoded, past_key_values=cache)
            cache = result.past_key_values
    own, cross = traces[-1]
    assert [keys_of(own), keys_of(cross)] == keys
    assert own.inputs.query_tokens == cross.inputs.query_tokens == (queries,)
    assert [own.kind, cross.kind] == ["causal", "cross"]
    [missing] = traces[-1].missing
    assert missing.startswith("The encoder is not shown: it ran before")


@pytest.mark.parametrize("cache", [None, "static"])
def test_a_window_has_the_names_of_its_last_tokens(cache):
    model = made(hf.MistralForCausalLM, hf.MistralConfig(**SLIDING | SMALL))
    written = []

    def run(model):
        options = {"cache_implementation": cache} if cache else {}
        given = ids(3, 4, 5, 6, 7, 8)
        written.append(model.generate(given, do_sample=False, max_new_tokens=4, pad_token_id=0, **options))

    layer, missing = last_layer(model, run)
    assert layer.inputs.key_tokens == tuple(named(written[0][0, -1 - layer.inputs.keys : -1].tolist()))
    assert layer.inputs.keys == 5
    assert not missing


def test_free_places_of_a_cache_have_numbers(llama):
    cache = hf.StaticCache(config=llama.config, max_cache_len=6)

    def run(model):
        for given in ((13, 14, 15), (3, 4), (5,)):
            if given == (3, 4):
                cache.reset()
            model(ids(*given), past_key_values=cache)

    layer, missing = last_layer(llama, run)
    assert (keys_of(layer), missing) == ("t3 t4 t5 3 4 5", ())


def test_a_model_inside_another_one(llama):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = llama

        def forward(self, given, cache):
            return self.model(given, past_key_values=cache)

    def run(model):
        cache = hf.DynamicCache()
        for given in (ids(3, 4), ids(5)):
            model(given, cache)

    layer, missing = last_layer(Outer(), run)
    assert (layer.inputs.query_tokens, keys_of(layer), layer.kind, missing) == (("2",), "0 1 2", "causal", ())


def test_caches_are_updated_as_before_and_forget_what_they_were_emptied_of(llama):
    before = hf.Cache.update
    with capturing(llama):
        cache = llama(ids(3, 4)).past_key_values
        chosen(cache, [])
        llama(ids(5), past_key_values=cache)
    assert hf.Cache.update is before
    [entries] = cache.attnviz_entries.values()
    assert len(entries) == 1


def test_fingerprints_are_equal_where_all_numbers_are():
    vectors = torch.randn(2, 3, 50, 4)
    prints = fingerprints(vectors, vectors[..., :2])
    assert torch.equal(
        prints[:, 10:20], fingerprints(*(one[:, :, 10:20].clone() for one in (vectors, vectors[..., :2])))
    )
    assert len(prints.unique()) == 100
    for place in ((0, 0, 7, 3), (1, 2, 49, 0)):
        other = vectors.clone()
        other[place] = torch.nextafter(other[place], torch.tensor(9.0))
        changed = (fingerprints(other, vectors[..., :2]) != prints).nonzero().tolist()
        assert changed == [[place[0], place[2]]]
    assert torch.equal(fingerprints(vectors.bfloat16()), fingerprints(vectors.bfloat16().float()))
