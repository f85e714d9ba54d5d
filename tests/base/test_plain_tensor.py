"""Numbers in every storage of torch and NumPy: the same map, or a sentence."""

import numpy as np
import pytest
import torch
import transformers as hf
from torch import nn

import attnviz
from attnviz.analysis.difference import difference
from attnviz.attribution import Logit
from attnviz.base.plain_tensor import plain_array, plain_tensor
from attnviz.effects import ablations
from attnviz.figures.maps import as_maps
from attnviz.inputs import Inputs
from attnviz.masks import Grid
from attnviz.notebook.layer_maps import layer_maps

WEIGHTS = torch.tensor([[0.75, 0.25], [0.5, 0.5]])
MASK = [[0, 1], [0, 0]]
SAME = {
    "COO": WEIGHTS.to_sparse(),
    "COO of rows": WEIGHTS.to_sparse(1),
    "CSR": WEIGHTS.to_sparse_csr(),
    "CSC": WEIGHTS.to_sparse_csc(),
    "BSR": WEIGHTS.to_sparse_bsr((1, 1)),
    "BSC": WEIGHTS.to_sparse_bsc((1, 1)),
    "MKL-DNN": WEIGHTS.to_mkldnn(),
    "float8": WEIGHTS.to(torch.float8_e4m3fn),
    "float8 of 5 bits": WEIGHTS.to(torch.float8_e5m2),
    "bfloat16": WEIGHTS.bfloat16(),
    "quantized": torch.quantize_per_tensor(WEIGHTS, 1 / 256, 0, torch.quint8),
    "with gradients": WEIGHTS.clone().requires_grad_(),
    "a parameter": nn.Parameter(WEIGHTS),
    "negated": torch._neg_view(-WEIGHTS),
    "an array": WEIGHTS.numpy(),
    "longdouble": WEIGHTS.numpy().astype(np.longdouble),
    "float16": WEIGHTS.numpy().astype("f2"),
    "another order of bytes": WEIGHTS.numpy().astype(">f4"),
    "a masked array without a mask": np.ma.masked_array(WEIGHTS.numpy()),
}
PARTLY = {
    "a masked array": np.ma.masked_array(WEIGHTS.numpy(), MASK),
    "a masked tensor": torch.masked.masked_tensor(WEIGHTS, ~torch.tensor(MASK, dtype=torch.bool)),
}
REFUSED = {
    "meta": (WEIGHTS.to("meta"), "is on the meta device: it has the shape 2 × 2 and no numbers"),
    "nested": (torch.nested.nested_tensor([WEIGHTS, WEIGHTS[:1]]), "is a nested tensor"),
    "jagged": (torch.nested.nested_tensor([WEIGHTS, WEIGHTS[:1]], layout=torch.jagged), "is a nested tensor"),
    "complex": (WEIGHTS.to(torch.complex64), "are complex numbers"),
    "a complex array": (WEIGHTS.numpy().astype("c8"), "holds no weights, but values of the type complex64"),
    "structured": (np.array([(1, 2)], [("a", "f4"), ("b", "f4")]), "holds no weights, but values of the type"),
    "objects": (np.array([[object()]]), "holds no weights, but values of the type object"),
    "huge": (torch.sparse_coo_tensor(torch.zeros(2, 0, dtype=torch.long), [], (1 << 28, 1 << 28)), "cannot be made a"),
}


@pytest.mark.parametrize("values", SAME.values(), ids=SAME)
def test_each_storage_gives_the_same_map(values, tmp_path) -> None:
    assert torch.equal(layer_maps(values)[0].maps()[0], WEIGHTS)
    assert torch.equal(layer_maps([values] * 2)[1].maps()[0], WEIGHTS)
    assert np.array_equal(as_maps(values)[0], WEIGHTS)
    attnviz.show(values).to_html(tmp_path / "map.html")
    assert (tmp_path / "map.html").stat().st_size


@pytest.mark.parametrize("values", PARTLY.values(), ids=PARTLY)
def test_what_is_masked_is_not_allowed(values) -> None:
    expected = WEIGHTS.masked_fill(torch.tensor(MASK, dtype=torch.bool), torch.nan)
    for shown in (
        layer_maps(values)[0].maps()[0],
        layer_maps([values])[0].maps()[0],
        torch.as_tensor(as_maps(values)[0]),
    ):
        torch.testing.assert_close(shown.float(), expected, equal_nan=True)


@pytest.mark.parametrize(("values", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_map_is_refused_in_a_sentence(values, sentence) -> None:
    with pytest.raises(ValueError, match=sentence):
        attnviz.show(values)


def test_the_masked_cells_of_a_map_are_not_compared() -> None:
    own = WEIGHTS.numpy()
    shown = difference(own, np.ma.masked_array(own / 2, MASK))
    expected = difference(own, np.where(MASK, np.nan, own / 2).astype("f4"))
    torch.testing.assert_close(shown, expected, equal_nan=True)


def test_a_matrix_of_scipy_is_made_dense() -> None:
    class Sparse:
        def toarray(self) -> np.ndarray:
            return WEIGHTS.numpy()

    assert np.array_equal(plain_array(Sparse()), WEIGHTS)


def test_queries_and_keys_are_computed_with_as_plain_tensors() -> None:
    vectors = torch.tensor([[[1.0, 0.0], [0.5, 2.0]]])
    plain = Inputs(vectors, vectors, vectors, ("a", "b"), ("a", "b"))
    for other in (vectors.to_sparse(), vectors.to(torch.float8_e4m3fn)):
        inputs = Inputs(other, other, other, ("a", "b"), ("a", "b"))
        assert torch.equal(inputs.query, plain.query)
        assert inputs.dtype == torch.float32
    with pytest.raises(ValueError, match="query is on the meta device"):
        Inputs(*[vectors.to("meta")] * 3, ("a", "b"), ("a", "b"))
    assert plain_tensor(vectors, "these") is vectors


def test_a_mask_is_a_matrix_of_any_storage_without_a_mask_of_its_own() -> None:
    cells = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    assert Grid.from_array(cells.to_sparse()) == Grid.from_array(cells) == Grid.from_array(cells.bfloat16())
    with pytest.raises(ValueError, match="This matrix is masked itself"):
        Grid.from_array(np.ma.masked_array(cells.numpy(), MASK))


def test_a_model_or_a_batch_without_numbers_is_refused() -> None:
    config = hf.LlamaConfig(
        vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2
    )
    with torch.device("meta"):
        model = hf.LlamaForCausalLM(config)
    ids = {"input_ids": torch.tensor([[1, 2]])}
    for run in (
        lambda: attnviz.capture(model, ids),
        lambda: attnviz.attribute(model, ids, Logit(1)),
        lambda: ablations(model, ids, Logit(1)),
    ):
        with pytest.raises(ValueError, match="LlamaForCausalLM is on the meta device, without numbers"):
            run()
    attention, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(1, 4, 8)
    with pytest.raises(ValueError, match="A tensor of this batch is on the meta device"):
        attnviz.capture(attention, *[x.to("meta")] * 3)
    with pytest.raises(ValueError, match="A tensor of this batch is a nested tensor"):
        attnviz.capture(attention, *[torch.nested.nested_tensor([x[0], x[0]])] * 3)
