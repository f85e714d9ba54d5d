"""Five questions over many texts, answered with attnviz: docs/five-questions.md shows the programs."""

# --8<-- [start:mean]
from attnviz.effects import ablations


def mean_effects(model, texts, metric, neutral):
    effects = ablations(model, texts, metric, texts=neutral)
    return effects.mean, effects.spread.standard_error


# --8<-- [end:mean]
# --8<-- [start:metric]
from attnviz.effects import ablations


def effects_on_tokens(model, texts, tokens):
    def log_probability(output, batch):
        return output.logits[:, -1].log_softmax(-1)[:, tokens].logsumexp(-1)

    return ablations(model, texts, log_probability, how="zero").mean


# --8<-- [end:metric]
# --8<-- [start:parts]
from attnviz.effects import ModelPart, patch_parts


def recovered_by_parts(model, clean, corrupted, metric, layers):
    kinds = ("residual", "mlp")
    parts = [ModelPart(kind, layer, positions=(-1,)) for kind in kinds for layer in range(layers)]
    patched = patch_parts(model, clean, corrupted, metric, parts)
    return patched.map(lambda one: one.recovered).mean.reshape(len(kinds), layers)


# --8<-- [end:parts]
# --8<-- [start:circuit]
from attnviz.effects import circuit_curves


def circuit(model, texts, metric, neutral, order):
    curves = circuit_curves(model, texts, metric, order, neutral=neutral, mlps=False, test_share=1, random_sets=0)
    return curves.sizes, curves.faithfulness, curves.completeness


# --8<-- [end:circuit]
# --8<-- [start:kept]
import attnviz
from attnviz.effects import ablations


def kept(model, texts, metric, path):
    ablations(model, texts, metric, how="zero").save(path, model=model, metric=metric)
    saved = attnviz.load(path)
    return saved.result.to_frame(), saved.metric


# --8<-- [end:kept]
