"""What a model would say without a part of it, with a part of another run, or after fewer layers, and its heads as
circuits."""

from attnviz.attribution.metrics import Logit, LogitDifference
from attnviz.effects.ablation import ablations, estimates, group_effects, mlp_ablations
from attnviz.effects.circuits import CircuitCurves, circuit_curves
from attnviz.effects.compensation import Compensation, compensations
from attnviz.effects.head_circuits import HeadCircuits, head_circuits
from attnviz.effects.hidden_region import HiddenRegion, hide_region
from attnviz.effects.knockout import knockout
from attnviz.effects.logit_lens import LayerPredictions, layer_predictions, logit_lens
from attnviz.effects.metrics import KL, Cosine, Loss, Probability
from attnviz.effects.neuron_examples import NeuronExamples, neuron_examples
from attnviz.effects.neutral_texts import NEUTRAL_TEXTS, neutral_texts
from attnviz.effects.part_effects import part_effects, part_estimates, part_intervention
from attnviz.effects.parts import ModelPart
from attnviz.effects.patching import patch, patch_parts
from attnviz.effects.path_patching import patch_paths
from attnviz.effects.prompt_pairs import PromptPairs
from attnviz.effects.text_pair import Patching
from attnviz.effects.token_alignment import alignment
from attnviz.effects.value_norms import value_norms
from attnviz.models.interventions import PartIntervention

__all__ = [
    "KL",
    "NEUTRAL_TEXTS",
    "CircuitCurves",
    "Compensation",
    "Cosine",
    "HeadCircuits",
    "HiddenRegion",
    "LayerPredictions",
    "Logit",
    "LogitDifference",
    "Loss",
    "ModelPart",
    "NeuronExamples",
    "PartIntervention",
    "Patching",
    "Probability",
    "PromptPairs",
    "ablations",
    "alignment",
    "circuit_curves",
    "compensations",
    "estimates",
    "group_effects",
    "head_circuits",
    "hide_region",
    "knockout",
    "layer_predictions",
    "logit_lens",
    "mlp_ablations",
    "neuron_examples",
    "neutral_texts",
    "part_effects",
    "part_estimates",
    "part_intervention",
    "patch",
    "patch_parts",
    "patch_paths",
    "value_norms",
]
