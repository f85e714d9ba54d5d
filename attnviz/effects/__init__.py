"""What a model would say without a part of it, with a part of another run, or after fewer layers."""

from attnviz.attribution.metrics import Logit, LogitDifference
from attnviz.effects.ablation import ablations, estimates, mlp_ablations
from attnviz.effects.knockout import knockout
from attnviz.effects.logit_lens import LayerPredictions, layer_predictions, logit_lens
from attnviz.effects.metrics import KL, Cosine, Loss, Probability

__all__ = [
    "KL",
    "Cosine",
    "LayerPredictions",
    "Logit",
    "LogitDifference",
    "Loss",
    "Probability",
    "ablations",
    "estimates",
    "knockout",
    "layer_predictions",
    "logit_lens",
    "mlp_ablations",
]
