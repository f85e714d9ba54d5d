"""How much a head writes from each key: its weight times the size of the value that it reads there."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from attnviz.attribution.linearized_pass import LinearizedPass, query_weights, values_of_head
from attnviz.base.language import value_error
from attnviz.effects.linear_maps import ModuleOutputs, pulled
from attnviz.tracing.linearized_run import FixedScales, run_linearized

ROWS_AT_ONCE = 32  # of the map to the residual stream


def value_norms(linearized: LinearizedPass, queries: Mapping[int, int]) -> dict[int, Float[Tensor, "heads keys"]]:
    """Returns, for each of some layers, the norms of what its heads write to the residual stream from each key at one
    query: of weight · value · output projection (Kobayashi et al. 2020, "Attention is Not Only a Weight").

    `queries` are the positions of the queries by layer. Raises ValueError if weights or values of a head are not known,
    or if its layer does not write to the residual stream.
    """
    outputs = ModuleOutputs()
    _output, run = run_linearized(
        linearized.model, linearized.arguments, FixedScales(), linearized.gated, outputs.kept, linearized.change_heads
    )
    words = [writer.value for writer in run.embeddings]
    norms = {}
    for layer, query in queries.items():
        writer, stream = run.heads[layer], outputs.stream_after(run, layer, words)
        if stream is None:
            raise value_error("What the heads of {layer} add to the residual stream is not known.", layer=writer.name)
        output_map = _output_map(stream.value.reshape(writer.positions, -1)[query], writer.value, query)
        of_heads = []
        for head in range(writer.value.shape[2]):
            read = query_weights(writer, head, query)[:, None] * values_of_head(writer, head).detach()
            of_heads.append((read @ output_map[:, head].T).norm(dim=-1))
        norms[layer] = torch.stack(of_heads).cpu()
    return norms


def output_maps(linearized: LinearizedPass) -> list[Float[Tensor, "width heads d_v"] | None]:
    """Returns, for each layer, the map of what its heads give to what they add to the residual stream, at the scales
    that norms have at the last position of this pass, if they come after it; None where it is not known."""
    outputs = ModuleOutputs()
    _output, run = run_linearized(
        linearized.model, linearized.arguments, FixedScales(), linearized.gated, outputs.kept, linearized.change_heads
    )
    words, maps = [writer.value for writer in run.embeddings], list[Tensor | None]()
    for layer, writer in enumerate(run.heads):
        stream, last = outputs.stream_after(run, layer, words), writer.positions - 1
        if stream is None or writer.call is None:
            maps.append(None)
        else:
            written = stream.value.reshape(writer.positions, -1)[last]
            maps.append(_output_map(written, writer.value, last))
    return maps


def _output_map(written: Tensor, output: Tensor, position: int) -> Float[Tensor, "width heads d_v"]:
    rows = []
    for block in torch.eye(len(written), dtype=written.dtype, device=written.device).split(ROWS_AT_ONCE):
        gradients = pulled(written, output, block)
        rows.append(gradients.reshape(-1, *output.shape[1:])[:, position].clone())
    return torch.cat(rows)
