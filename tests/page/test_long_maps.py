"""Long maps: a sample first, then row after row, in the end the map as it is computed at once."""

import pytest
import torch

from attnviz.analysis.downsampling import Downsampled
from attnviz.analysis.engines import Local
from attnviz.inputs import Inputs
from attnviz.masks import Causal
from attnviz.mechanism import Mechanism
from attnviz.page import long_maps
from attnviz.page.long_maps import downsample_head, refine

TOKENS = 3_000


def head() -> tuple[Inputs, Mechanism, int]:
    generator, names = torch.Generator().manual_seed(0), tuple(map(str, range(TOKENS)))
    return Inputs(*torch.randn(3, 1, TOKENS, 8, generator=generator), names, names), Mechanism(mask=Causal()), 0


def test_a_sample_is_replaced_row_by_row() -> None:
    inputs, mechanism, index = head()
    shares: list[float] = []
    results: list[Downsampled] = []

    def on_result(share: float, result: Downsampled) -> None:
        shares.append(share)
        results.append(result)

    def compute(**options: object) -> Downsampled:
        return downsample_head(inputs, mechanism, index, cells=(10, 10), **options)

    whole = refine(compute, on_result)
    assert shares == sorted(shares)
    assert len(shares) > 2
    coarse, partly = results[:2]
    assert coarse.queries_done == 10 * long_maps.FIRST_SAMPLE
    assert all(one.mass.isfinite().all() and torch.allclose(one.mass.sum(1), torch.ones(10)) for one in results)
    assert torch.equal(partly.mass[0], whole.mass[0])
    assert torch.equal(partly.mass[-1], coarse.mass[-1])
    assert coarse.queries_done < partly.queries_done < whole.queries_done == TOKENS
    assert torch.equal(whole.mass, compute().mass)


def test_the_engine_of_the_settings_computes_whole_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    engines: list[object] = []
    monkeypatch.setattr(long_maps, "downsample", lambda *_, engine, **__: engines.append(engine))
    monkeypatch.setattr(long_maps, "_unreached", "")
    downsample_head(*head(), progress=lambda *_: None)
    monkeypatch.setenv("ATTNVIZ_RAY", "127.0.0.1:1")
    downsample_head(*head(), sample=2)
    downsample_head(*head(), progress=lambda *_: None)
    assert engines == [None, None, Local()]
    assert long_maps._unreached.startswith("The Ray cluster at “127.0.0.1:1” cannot be reached")
