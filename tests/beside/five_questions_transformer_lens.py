"""The same questions answered with TransformerLens 4.3: `make beside` compares the answers."""

# --8<-- [start:mean]
import torch


def mean_effects(model, prompts, metric, neutral):
    names = [f"blocks.{layer}.attn.hook_z" for layer in range(model.cfg.n_layers)]
    caches = [model.run_with_cache(ids)[1] for ids in neutral]
    means = {name: torch.cat([cache[name][0] for cache in caches]).mean(0) for name in names}
    effects = torch.zeros(len(prompts), model.cfg.n_layers, model.cfg.n_heads)
    for number, ids in enumerate(prompts):
        own = metric(model(ids))
        for layer, name in enumerate(names):
            for head in range(model.cfg.n_heads):

                def replace(z, hook, name=name, head=head):
                    z[:, :, head] = means[name][head]
                    return z

                changed = model.run_with_hooks(ids, fwd_hooks=[(name, replace)])
                effects[number, layer, head] = metric(changed) - own
    return effects.mean(0), effects.std(0) / len(prompts) ** 0.5


# --8<-- [end:mean]
# --8<-- [start:metric]
import torch


def effects_on_tokens(model, prompts, tokens):
    def log_probability(logits):
        return logits[0, -1].log_softmax(-1)[tokens].logsumexp(-1)

    effects = torch.zeros(len(prompts), model.cfg.n_layers, model.cfg.n_heads)
    for number, ids in enumerate(prompts):
        own = log_probability(model(ids))
        for layer in range(model.cfg.n_layers):
            for head in range(model.cfg.n_heads):

                def remove(z, hook, head=head):
                    z[:, :, head] = 0
                    return z

                hooks = [(f"blocks.{layer}.attn.hook_z", remove)]
                effects[number, layer, head] = log_probability(model.run_with_hooks(ids, fwd_hooks=hooks)) - own
    return effects.mean(0)


# --8<-- [end:metric]
# --8<-- [start:parts]
import torch


def recovered_by_parts(model, clean, corrupted, metric, layers):
    kinds = ("hook_resid_pre", "hook_mlp_out")
    recovered = torch.zeros(len(clean), len(kinds), layers)
    for number, (clean_ids, corrupted_ids) in enumerate(zip(clean, corrupted, strict=True)):
        logits, cache = model.run_with_cache(clean_ids)
        best, worst = metric(logits), metric(model(corrupted_ids))
        for place, kind in enumerate(kinds):
            for layer in range(layers):
                name = f"blocks.{layer}.{kind}"

                def patch(values, hook, name=name, cache=cache):
                    values[:, -1] = cache[name][:, -1]
                    return values

                patched = metric(model.run_with_hooks(corrupted_ids, fwd_hooks=[(name, patch)]))
                recovered[number, place, layer] = (patched - worst) / (best - worst)
    return recovered.mean(0)


# --8<-- [end:parts]
# --8<-- [start:circuit]
import torch


def circuit(model, prompts, metric, neutral, order):
    names = [f"blocks.{layer}.attn.hook_z" for layer in range(model.cfg.n_layers)]
    caches = [model.run_with_cache(ids)[1] for ids in neutral]
    means = {name: torch.cat([cache[name][0] for cache in caches]).mean(0) for name in names}
    every = {(layer, head) for layer in range(model.cfg.n_layers) for head in range(model.cfg.n_heads)}

    def without(ids, heads):
        hooks = []
        for layer, name in enumerate(names):
            replaced = [head for other, head in heads if other == layer]

            def replace(z, hook, name=name, replaced=replaced):
                z[:, :, replaced] = means[name][replaced]
                return z

            hooks.append((name, replace))
        return metric(model.run_with_hooks(ids, fwd_hooks=hooks))

    sizes = sorted({0, len(order), *(2**power for power in range(9) if 2**power <= len(order))})
    alone, rest = torch.zeros(len(prompts), len(sizes)), torch.zeros(len(prompts), len(sizes))
    for number, ids in enumerate(prompts):
        for place, size in enumerate(sizes):
            alone[number, place] = without(ids, every - {*order[:size]})
            rest[number, place] = without(ids, {*order[:size]})
    whole = torch.stack([metric(model(ids)) for ids in prompts]).mean()
    nothing = torch.stack([without(ids, every) for ids in prompts]).mean()
    return sizes, *((values.mean(0) - nothing) / (whole - nothing) for values in (alone, rest))


# --8<-- [end:circuit]
# --8<-- [start:kept]
import pandas as pd
import torch


def kept(model, prompts, metric, path):
    rows = []
    for number, ids in enumerate(prompts):
        own = metric(model(ids))
        for layer in range(model.cfg.n_layers):
            for head in range(model.cfg.n_heads):

                def remove(z, hook, head=head):
                    z[:, :, head] = 0
                    return z

                hooks = [(f"blocks.{layer}.attn.hook_z", remove)]
                effect = metric(model.run_with_hooks(ids, fwd_hooks=hooks)) - own
                rows.append({"text": number, "layer": layer, "head": head, "value": float(effect)})
    torch.save({"rows": rows, "metric": metric.__name__, "model": model.cfg.model_name}, path)
    saved = torch.load(path)
    return pd.DataFrame(saved["rows"]), saved["metric"]


# --8<-- [end:kept]
