"""Ablations, patches, knockouts, the logit lens and circuits by TransformerLens: `make oracles` runs this.

It writes them into a file, which the tests of effects read. Heads are patched by TransformerLens' own functions; where
heads share their keys and values, which those refuse to tell apart, other heads of the layer are held by a second hook.
"""

import json
import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformer_lens import FactoredMatrix, patching  # type: ignore[import-not-found]

from tests.oracles.bridge import bridge
from tests.support.seeded_models import (
    CIRCUIT,
    CORRUPTED,
    HEADS,
    IDS,
    LAYERS,
    OTHER,
    PAIRS,
    SEEDED,
    SOURCE,
    TEXTS,
    TOKEN,
    prompts,
)

Hook = Callable[..., Tensor]
HEAD = range(HEADS)
LEAST_WAY = 0.03  # between a clean and a corrupted text, in logits


def difference(logits: Tensor) -> Tensor:
    return logits[0, -1, TOKEN] - logits[0, -1, OTHER]


class Effects:
    """The effects in one model and one pair of texts."""

    def __init__(self, hooked: Any, ids: Tensor = IDS, corrupted_ids: Tensor = CORRUPTED) -> None:
        self.hooked, self.ids, self.corrupted_ids = hooked, ids, corrupted_ids
        self.logits, self.clean = self.hooked.run_with_cache(ids)
        self.corrupted_logits, self.corrupted = self.hooked.run_with_cache(corrupted_ids)

    def bits(self, logits: Tensor) -> Tensor:
        before, after = self.logits[0, -1].log_softmax(-1), logits[0, -1].log_softmax(-1)
        return (before.exp() * (before - after)).sum() / math.log(2)

    def ran(self, *hooks: tuple[str, Hook], ids: Tensor | None = None) -> Tensor:
        return self.hooked.run_with_hooks(self.ids if ids is None else ids, fwd_hooks=list(hooks))

    def loss(self, logits: Tensor) -> Tensor:
        return -logits[0, :-1].log_softmax(-1).gather(-1, self.ids[0, 1:, None]).mean() / math.log(2)

    def changes(self, logits: Tensor) -> list[Tensor]:
        """Returns what the difference of logits, the loss and the KL divergence are after a change, minus before."""
        return [
            difference(logits) - difference(self.logits),
            self.loss(logits) - self.loss(self.logits),
            self.bits(logits),
        ]

    def ablations(self, instead: Callable[[str], Tensor | float]) -> Tensor:
        """Returns the changes (metrics, layers, heads) where the outputs of a head are others."""
        changes = []
        for layer in range(LAYERS):
            name = f"blocks.{layer}.attn.hook_z"
            value = torch.as_tensor(instead(name)).expand_as(self.clean[name])
            changes += [self.changes(self.ran((name, set_head(value, head)))) for head in HEAD]
        return torch.tensor(changes).T.unflatten(1, (LAYERS, HEADS))

    def mean(self, name: str) -> Tensor:
        return torch.cat([self.hooked.run_with_cache(text)[1][name][0] for text in TEXTS]).mean(0)

    def mlp_ablations(self) -> Tensor:
        """Returns the changes (metrics, layers) where an MLP writes nothing."""
        return torch.tensor(
            [
                self.changes(self.ran((f"blocks.{layer}.hook_mlp_out", lambda out, hook: torch.zeros_like(out))))
                for layer in range(LAYERS)
            ]
        ).T

    def patches(self) -> dict[str, Tensor]:
        """Returns the difference of logits of the corrupted run in which a part is that of the clean run."""
        arguments = (self.hooked, self.corrupted_ids, self.clean, difference)
        by_head = {"output": "out", "query": "q", "key": "k", "value": "v", "pattern": "pattern"}
        found = {
            "residual": patching.get_act_patch_resid_pre(*arguments),
            "mlp": patching.get_act_patch_mlp_out(*arguments),
            "output by position": patching.get_act_patch_attn_head_out_by_pos(
                *arguments
            ).mT,  # to (…, heads, positions)
        }
        for what, short in by_head.items():
            if what in ("key", "value") and self.hooked.cfg.n_key_value_heads not in (None, HEADS):
                found[what] = self.shared(f"hook_{short}")
            else:
                found[what] = getattr(patching, f"get_act_patch_attn_head_{short}_all_pos")(*arguments)
        return found

    def shared(self, read: str) -> Tensor:
        """Returns the same where a head alone reads a key or value of the clean run that others share."""
        group, found = HEADS // self.hooked.cfg.n_key_value_heads, torch.zeros(LAYERS, HEADS)
        for layer in range(LAYERS):
            name, written = f"blocks.{layer}.attn.{read}", f"blocks.{layer}.attn.hook_z"
            for head in HEAD:

                def others(z: Tensor, hook: Any, head: int = head, written: str = written) -> Tensor:
                    return set_head(z, head)(self.corrupted[written].clone(), hook)

                patched = (name, set_head(self.clean[name], head // group)), (written, others)
                found[layer, head] = difference(self.ran(*patched, ids=self.corrupted_ids))
        return found

    def paths(self) -> dict[str, Tensor]:
        """Returns the same where what one head writes is that of the clean run for one reader of another head."""
        arguments = (self.hooked, self.corrupted_ids, self.clean, self.corrupted, difference, *SOURCE)
        names = {"q": "query"} if self.hooked.cfg.n_key_value_heads else {"q": "query", "k": "key", "v": "value"}
        return {
            name: patching.get_act_patch_direct_path(*arguments, component=short, verbose=False)[SOURCE[0] + 1 :]
            for short, name in names.items()
        }

    def knockouts(self) -> Tensor:
        """Returns the changes (metrics, keys) where no head sees a key. A query that sees none has no output."""

        def hidden(key: int) -> Hook:
            def hide(scores: Tensor, hook: Any) -> Tensor:
                scores = scores.masked_fill(scores <= torch.finfo(scores.dtype).min / 2, -torch.inf)
                scores[..., key] = -torch.inf
                return scores

            return hide

        def none(pattern: Tensor, hook: Any) -> Tensor:
            return pattern.nan_to_num()

        layers = [f"blocks.{layer}.attn.hook_" for layer in range(LAYERS)]
        return torch.tensor(
            [
                self.changes(
                    self.ran(
                        *((layer + "attn_scores", hidden(key)) for layer in layers),
                        *((layer + "pattern", none) for layer in layers),
                    )
                )
                for key in range(self.ids.shape[1])
            ]
        ).T

    def lens(self) -> Tensor:
        """Returns the logits (layers + 1, 2, vocabulary) at two positions of the stream after each layer."""
        streams = self.clean.accumulated_resid(layer=-1, incl_mid=False)[:, 0]
        return self.hooked.unembed(self.hooked.ln_final(streams))[:, [3, -1]]

    def circuits(self) -> dict[str, Tensor]:
        """Returns copying scores (layers, heads), and composition scores (earlier layers, heads, heads of the last)."""
        self.hooked.enable_compatibility_mode(
            disable_warnings=True, center_writing_weights=False, fold_value_biases=False
        )
        hooked = self.hooked
        values = hooked.W_V.repeat_interleave(HEADS // hooked.W_V.shape[1], 1)
        written = FactoredMatrix(values, hooked.W_O)
        eigenvalues = (hooked.W_E @ written @ hooked.W_U).eigenvalues
        return {
            "copying": eigenvalues.sum(-1).real / eigenvalues.abs().sum(-1),
            "query": hooked.all_composition_scores("Q").scores[:-1, :, -1],
            "key": hooked.all_composition_scores("K").scores[:-1, :, -1],
            "value": hooked.all_composition_scores("V").scores[:-1, :, -1],
        }

    def several_pairs(self) -> dict[str, list[list[Tensor]]]:
        """Returns, of each pair of texts, what the corrupted run has with the stream, or an MLP, of the clean one at a
        position, and the estimates of that by the gradients of the corrupted run (attribution patching)."""
        patched, estimates = [], []
        hooks = ("hook_resid_pre", "hook_mlp_out", "attn.hook_z")
        names = [[f"blocks.{layer}.{hook}" for layer in range(LAYERS)] for hook in hooks]
        for clean, corrupted in PAIRS:
            cache = self.hooked.run_with_cache(clean)[1]
            arguments = (self.hooked, corrupted, cache, difference)
            patched.append([patching.get_act_patch_resid_pre(*arguments), patching.get_act_patch_mlp_out(*arguments)])
            own, gradients = self.gradients(corrupted, [name for of_what in names for name in of_what])
            moved = {name: (cache[name] - own[name]) * gradients[name] for name in own}
            estimates.append([torch.stack([moved[name][0].sum(-1) for name in of_what]) for of_what in names])
        return {"patched": patched, "estimates": estimates}

    @torch.enable_grad()
    def gradients(self, ids: Tensor, names: list[str]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Returns activations of a text by their names, and the gradients of the difference of logits there."""
        kept: dict[str, Tensor] = {}

        def keep(name: str) -> Hook:
            def hooked(tensor: Tensor, hook: Any) -> Tensor:
                kept[name] = tensor if tensor.requires_grad else tensor.requires_grad_()
                return kept[name]

            return hooked

        value = difference(self.ran(*((name, keep(name)) for name in names), ids=ids))
        gradients = torch.autograd.grad(value, [*kept.values()], allow_unused=True)
        known = [
            torch.zeros_like(own) if one is None else one for own, one in zip(kept.values(), gradients, strict=True)
        ]
        return {name: own.detach() for name, own in kept.items()}, dict(zip(kept, known, strict=True))

    def circuit(self) -> list[list[float]]:
        """Returns the difference of logits where the first parts of CIRCUIT alone are kept, and where they are
        replaced: others write their mean over texts."""
        every = [("output", layer, head) for layer in range(LAYERS) for head in HEAD]
        every += [("mlp", layer, 0) for layer in range(LAYERS)]
        names = {"output": "blocks.{}.attn.hook_z", "mlp": "blocks.{}.hook_mlp_out"}
        means = {}
        for kind, layer, _head in every:
            name = names[kind].format(layer)
            means[kind, layer] = self.mean(name).expand_as(self.clean[name])

        def without(parts: Any) -> float:
            hooks = []
            for kind, layer, head in parts:
                mean = means[kind, layer]
                hook = set_head(mean, head) if kind == "output" else lambda out, hook, mean=mean: mean
                hooks.append((names[kind].format(layer), hook))
            return float(difference(self.ran(*hooks)))

        sizes = range(len(CIRCUIT) + 1)
        kept = [without([part for part in every if part not in CIRCUIT[:size]]) for size in sizes]
        return [kept, [without(CIRCUIT[:size]) for size in sizes]]

    def recovered(self) -> Tensor:
        """Returns the share of the difference of logits (layers, heads) that the output of a head recovers."""
        clean, corrupted = difference(self.logits), difference(self.corrupted_logits)
        assert abs(clean - corrupted) > LEAST_WAY  # or rounding would be a large share of it
        values = patching.get_act_patch_attn_head_out_all_pos(self.hooked, self.corrupted_ids, self.clean, difference)
        return (values - corrupted) / (clean - corrupted)

    def direct(self) -> Tensor:
        """Returns the changes of the corrupted run (layers, heads) where what a head writes is that of the clean run
        for the logits alone."""
        stream, found = self.corrupted[f"blocks.{LAYERS - 1}.hook_resid_post"], torch.zeros(LAYERS, HEADS)
        for layer in range(LAYERS):
            name = f"blocks.{layer}.attn.hook_z"
            for head in HEAD:
                changed = (self.clean[name] - self.corrupted[name])[:, :, head]
                written = changed @ self.hooked.blocks[layer].attn.W_O[head]
                logits = self.hooked.unembed(self.hooked.ln_final(stream + written))
                found[layer, head] = difference(logits) - difference(self.corrupted_logits)
        return found

    @torch.enable_grad()
    def estimates(self) -> Tensor:
        """Returns the gradient at the output of each head times the way to its mean, (layers, heads)."""
        outputs: dict[str, Tensor] = {}

        def keep(z: Tensor, hook: Any, name: str) -> Tensor:
            outputs[name] = z
            return z  # or the view that is kept would be no part of the run

        names = [f"blocks.{layer}.attn.hook_z" for layer in range(LAYERS)]
        logits = self.ran(*((name, partial(keep, name=name)) for name in names))
        gradients = torch.autograd.grad(difference(logits), [outputs[name] for name in names])
        changes = (self.mean(name) - outputs[name] for name in names)
        parts = [(change * gradient).sum((0, 1, 3)) for change, gradient in zip(changes, gradients, strict=True)]
        return torch.stack(parts).detach()

    def all(self) -> dict[str, Any]:
        other = self.corrupted
        return {
            "clean": difference(self.logits),
            "corrupted": difference(self.corrupted_logits),
            "zero": self.ablations(lambda name: 0.0),
            "mean": self.ablations(self.mean),
            "resample": self.ablations(lambda name: other[name]),
            "mlps": self.mlp_ablations(),
            "patches": self.patches(),
            "paths": self.paths(),
            "pairs": self.several_pairs(),
            "circuit": self.circuit(),
            "knockouts": self.knockouts(),
            "lens": self.lens(),
            "circuits": self.circuits(),
        }


def set_head(value: Tensor, head: int) -> Hook:
    """Returns a hook that sets what belongs to a head, (examples, positions, heads, width)."""

    def change(tensor: Tensor, hook: Any) -> Tensor:
        tensor = tensor.clone()
        tensor[:, :, head] = value[:, :, head]
        return tensor

    return change


def over_prompts(hooked: Any) -> dict[str, Tensor]:
    """Returns the means (layers, heads) over many pairs of texts."""
    each = [Effects(hooked, *pair) for pair in prompts()]
    values = {
        "mean": [one.ablations(one.mean)[0] for one in each],
        "recovered": [one.recovered() for one in each],
        "direct": [one.direct() for one in each],
        "estimates": [one.estimates() for one in each],
    }
    return {name: torch.stack(grids).mean(0) for name, grids in values.items()}


def rounded(value: Any) -> Any:
    """Returns numbers with six digits after the point."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return rounded(value.tolist()) if isinstance(value, Tensor) else round(value, 6)


if __name__ == "__main__":
    with torch.no_grad():
        found = {name: Effects(bridge(name)).all() | {"prompts": over_prompts(bridge(name))} for name in SEEDED}
        lines = (f'  "{name}": {json.dumps(rounded(numbers))}' for name, numbers in found.items())
        Path(sys.argv[1]).write_text("{\n" + ",\n".join(lines) + "\n}\n")
