"""What a model's output becomes when something inside it is taken away or replaced."""

from attnviz.attribution.metrics import Logit, LogitDifference
from attnviz.effects.ablation import ablations, estimates, mlp_ablations
from attnviz.effects.knockout import knockout
from attnviz.effects.metrics import KL, Cosine, Loss, Probability

__all__ = [
    "KL",
    "Cosine",
    "Logit",
    "LogitDifference",
    "Loss",
    "Probability",
    "ablations",
    "estimates",
    "knockout",
    "mlp_ablations",
]
