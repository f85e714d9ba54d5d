"""Pages of a source whose layers are of both kinds: with queries and keys, and of weights alone."""

from dataclasses import dataclass, replace
from io import BytesIO

import numpy as np
import pytest
import torch

from attnviz import Inputs, Layer, Mechanism
from attnviz.analysis.head_maps import Aggregate, Special
from attnviz.layer import Fidelity, FixedWeights, Kind, LayerId, WeightsOnly
from attnviz.masks import Causal
from attnviz.page.blocks import page_view
from attnviz.page.selected_maps import selected_map, selected_thumbnails
from attnviz.pages.explore.blocks import explore, notes
from attnviz.pages.explore.state import ExploreState
from attnviz.pages.masks.blocks import masks
from attnviz.pages.masks.state import MasksState
from attnviz.pages.scores.blocks import scores
from attnviz.pages.scores.state import ScoresState
from attnviz.sources import Source
from attnviz.trace.memory import layer_bytes
from attnviz.ui.model_input import layer_facts

TOKENS = ("[CLS]", "it", "is", "so")
WEIGHTS = torch.rand(2, 4, 4, generator=torch.Generator().manual_seed(0)) / 4  # no row adds up to 1
AXES = (TOKENS, TOKENS, (0,), (0,))


@dataclass(frozen=True)
class Mixed(Source):
    """One layer of each kind."""

    text: str = ""

    def layers(self) -> list[Layer]:
        vectors = torch.rand(3, 2, 4, 8, generator=torch.Generator().manual_seed(1))
        return [
            Layer(LayerId(index=0), Kind.SELF, Inputs(*vectors, *AXES), Mechanism(), Fidelity.VERIFIED),
            Layer(LayerId(index=1), Kind.SELF, WeightsOnly(WEIGHTS, *AXES), FixedWeights(), Fidelity.WEIGHTS_ONLY),
        ]


def test_another_mask_changes_the_layers_with_queries_and_keys_alone() -> None:
    state = ExploreState(source=Mixed(), layer=0, mask=Causal())
    selection = replace(state.selection, all_layers=True)
    assert selection.layer.mechanism == Mechanism(mask=Causal())
    assert selection.layers[1].mechanism == FixedWeights()
    assert np.isnan(selected_map(selection).weights[0, 1])
    assert selected_thumbnails(selection)[2:].tobytes() == WEIGHTS.numpy().tobytes()


def test_weights_are_drawn_and_saved_as_they_are() -> None:
    state = ExploreState(source=Mixed(), layer=1, head=1)
    view = page_view(explore(state))
    saved = np.load(BytesIO(view.writers[".npz"]()))
    arrays = [saved[name] for name in saved.files if saved[name].dtype.kind == "f"]
    assert [array.tobytes() for array in arrays] == [WEIGHTS[1].numpy().tobytes()]
    mean = ExploreState(source=Mixed(), layer=1, head=Aggregate.MEAN)
    np.testing.assert_allclose(page_view(explore(mean)).panels[0].weights, WEIGHTS.mean(0), rtol=1e-6)


def test_what_would_change_a_mechanism_is_refused_in_a_sentence() -> None:
    for blocks, kind in ((masks, MasksState), (scores, ScoresState)):
        with pytest.raises(ValueError, match=r"^This layer has only weights.* cannot be changed\."):
            page_view(blocks(kind(source=Mixed(), layer=1)))
    assert not ExploreState.mask.is_offered(ExploreState(source=Mixed(), layer=1))


@pytest.mark.parametrize(
    ("special", "note"),
    [
        (Special.HIDDEN, "[CLS] are hidden; the rows keep their weights."),
        (Special.RESCALED, "[CLS] are hidden, and each row is rescaled to the sum it had with them."),
    ],
)
def test_notes_say_nothing_of_how_the_weights_were_made(special: Special, note: str) -> None:
    selection = ExploreState(source=Mixed(), layer=1, special_tokens=special).selection
    assert notes(selection, selected_map(selection)) == [note]


def test_where_the_weights_of_both_kinds_come_from() -> None:
    assert layer_facts(Mixed().layers()) == [
        "Weights of 1 layer: recomputed from the model's queries and keys, and compared with its own.",
        "Weights of 1 layer: as the model computed them, without queries and keys.",
    ]


def test_the_memory_of_a_layer_of_weights_is_that_of_the_weights() -> None:
    weights = Mixed().layers()[1:]
    assert layer_bytes(weights) == WEIGHTS.nbytes
