"""Where in many texts the hidden units of MLPs are largest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attnviz.attribution.linearized_pass import check_place
from attnviz.base.interruption import end_if_unwanted
from attnviz.base.language import value_error
from attnviz.effects.parts import NO_NEURON, Site, read_at, site_values
from attnviz.effects.sweep import Text
from attnviz.results import MeasuredResult, grid_columns


@dataclass(frozen=True, eq=False)
class NeuronExamples(MeasuredResult):
    """The largest activations of hidden units over texts, each from another text, the largest first.

    Attributes:
        mlps: The MLP of each unit.
        neurons: The number of each unit in its MLP.
        activations: The activations.
        texts: The number of the text of each.
        positions: Its position in that text.
    """

    mlps: Int[Tensor, " neurons"]
    neurons: Int[Tensor, " neurons"]
    activations: Float[Tensor, "neurons examples"]
    texts: Int[Tensor, "neurons examples"]
    positions: Int[Tensor, "neurons examples"]

    def columns(self) -> dict[str, Any]:
        """Returns the activations, a row for each."""
        columns = grid_columns(
            ("unit", "example"), activation=self.activations, text=self.texts, position=self.positions
        )
        units = columns.pop("unit")
        return {"mlp": self.mlps.numpy()[units], "neuron": self.neurons.numpy()[units], **columns}


def neuron_examples(
    model: nn.Module, texts: Sequence[Any], neurons: Sequence[tuple[int, int]] | None = None, *, count: int = 20
) -> NeuronExamples:
    """Returns where hidden units of MLPs, by their MLP and number, are largest over texts: the `count` largest
    activations, each from another text; by default of all units.

    A unit is what the last map of an MLP reads: the activation, or in a gated MLP its product with the gate. MLPs are
    counted as in `attnviz.attribute`. A text is what the model is called with for one example. Raises ValueError if
    there is no text, for a unit that there is not, and for an MLP whose hidden units several maps read.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_layer=1, n_head=2)).eval()
        >>> found = neuron_examples(model, [torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5]])], [(0, 7)], count=1)
        >>> found.activations.shape, int(found.texts) in (0, 1)
        (torch.Size([1, 1]), True)
    """
    if not len(texts):
        raise value_error("Examples are of at least one text.")
    first = Text.from_batch(model, texts[0])
    mlps = range(len(first.mlps)) if neurons is None else sorted({mlp for mlp, _neuron in neurons})
    sites = [Site("neuron", mlp) for mlp in mlps]
    largest = [torch.empty(0)] * 3  # the activations, their texts and positions
    units = places = torch.empty(0)
    for number, batch in enumerate(texts):
        end_if_unwanted()
        text = first.other(batch) if number else first
        values = site_values(text, sites)
        if not number:
            every = torch.tensor([(site.layer, unit) for site, own in values.items() for unit in range(own.shape[1])])
            units, places = _chosen(every, values, neurons)
        of_sites = [_largest(text, site, own) for site, own in values.items()]
        activations, positions = (torch.cat(one)[places, None] for one in zip(*of_sites, strict=True))
        both = [activations.float(), torch.full_like(positions, number), positions]
        if number:
            both = [torch.cat(pair, 1) for pair in zip(largest, both, strict=True)]
        order = both[0].argsort(dim=1, descending=True, stable=True)[:, :count]
        largest = [one.gather(1, order) for one in both]
    return NeuronExamples(*units.unbind(-1), *largest)


def _chosen(
    every: Int[Tensor, "units 2"], values: Mapping[Site, Tensor], neurons: Sequence[tuple[int, int]] | None
) -> tuple[Int[Tensor, "chosen 2"], Int[Tensor, " chosen"]]:
    """Returns the chosen units, and their places among all. Raises ValueError if there is no such unit."""
    if neurons is None:
        return every, torch.arange(len(every))
    for mlp, neuron in neurons:
        check_place(NO_NEURON, neuron, values[Site("neuron", mlp)].shape[1])
    places = {(mlp, neuron): place for place, (mlp, neuron) in enumerate(every.tolist())}
    return torch.tensor(neurons), torch.tensor([places[one] for one in neurons])


def _largest(text: Text, site: Site, own: Float[Tensor, "positions units 1"]) -> tuple[Tensor, Tensor]:
    """Returns the largest activation of each unit where the text is read, and its position."""
    read = read_at(text, site, len(own)).to(own.device)
    activations, positions = own[..., 0].where(read[:, None], -torch.inf).max(0)
    return activations.cpu(), positions.cpu()
