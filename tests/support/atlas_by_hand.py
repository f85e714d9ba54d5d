"""The numbers of the lesson about many texts, by transformers' own weights."""

import copy

import pytest
import torch

from attnviz.analysis.atlas import shipped_atlas, shipped_texts
from attnviz.analysis.atlas_examples import RANDOM, WEIGHT
from attnviz.base.formatting import number
from attnviz.base.text import EXAMPLE
from attnviz.models.minilm import minilm
from attnviz.pages.heads.head_examples import SHOWN

PRONOUNS = {"it", "its", "she", "he", "they", "their", "them", "her", "his"}
LAYER, HEAD = 3, 1
PREVIOUS = 0, 2  # another head, which looks at the token before


def one_sentence_is_no_law() -> list[str]:
    """The numbers of the lesson."""
    model = minilm()
    eager = copy.deepcopy(model.model)
    eager.set_attn_implementation("eager")

    def weights(text: str) -> torch.Tensor:
        with torch.no_grad():
            return torch.stack(eager(**model.encode(text).batch, output_attentions=True).attentions)[:, 0]

    tokens = model.encode(EXAMPLE).source.tokens
    in_one = weights(EXAMPLE)[LAYER, HEAD, tokens.index("it"), tokens.index("animal")]
    every = [weights(text) for text in shipped_texts()]
    special = torch.stack([one[LAYER, HEAD][:, [0, -1]].sum(-1).mean() for one in every])
    itself = torch.stack([one[LAYER, HEAD].diagonal().mean() for one in every])
    before = torch.stack([one[PREVIOUS].diagonal(-1).sum() / len(one[PREVIOUS]) for one in every])
    assert ((before >= 0.5).sum()) == len(every)
    atlas = shipped_atlas(model)
    assert atlas is not None

    def pairs(kind: str) -> list[tuple[str, str, float]]:
        found = atlas.pairs(atlas.head(LAYER, HEAD), kind)
        for pair in found:
            assert pair.weight == pytest.approx(float(every[pair.text][LAYER, HEAD, pair.query, pair.key]), abs=1e-4)
        texts = [model.encode(atlas.texts[pair.text]).source.tokens for pair in found]
        return [(one[pair.query], one[pair.key], pair.weight) for one, pair in zip(texts, found, strict=True)]

    largest, random = pairs(WEIGHT), pairs(RANDOM)
    birds = [weight for query, key, weight in largest if (query, key) == ("their", "Birds")]
    assert len(birds) == 3
    assert {("the", "bicycle"), ("of", "coffee")} <= {pair[:2] for pair in largest}
    of_pair = {pair[:2]: pair[2] for pair in random}
    pronouns = [sum(query.lower() in PRONOUNS for query, _key, _weight in some) for some in (largest, random)]
    return [
        *map(str, (LAYER, HEAD, *PREVIOUS, len(every), len(largest), len(largest) - SHOWN, *pronouns)),
        *(number(float(one)) for one in (in_one, special.mean(), itself.mean(), max(birds))),
        *(f"{of_pair[pair]:.2f}" for pair in (("She", "Lisa"), ("it", "a"))),
    ]
