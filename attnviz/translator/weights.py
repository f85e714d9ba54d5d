"""The shipped weights, and the logs of their training."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from attnviz.base.app_files import ASSETS
from attnviz.base.language import _, value_error
from attnviz.translator.encoder_decoder import SOURCE_VOCABULARY, TARGET_VOCABULARY, create_model, score_class
from attnviz.translator.grammar import Sentence, Split, generate_sentences
from attnviz.translator.translation import Translator

FOLDER = ASSETS / "translator"
VOCABULARY_DIGEST = hashlib.blake2s(
    "\n".join((*SOURCE_VOCABULARY, "", *TARGET_VOCABULARY)).encode(), digest_size=8
).hexdigest()
TEST_SENTENCES = 500  # sentences by which what is shipped was measured
RETRAIN = "Train it again, with “make train”."


@dataclass(frozen=True)
class Evaluation:
    """The quality of a translator on test sentences after a number of training steps."""

    step: int
    loss: float  # of the batch that led to this step
    exact: float  # share of test sentences that are right in every word
    combinations: float  # the same, of sentences with a pair of words that was never trained on
    agreement: tuple[tuple[float, ...], ...]  # with the true alignment, of each layer's heads, in test sentences

    @property
    def best(self) -> float:
        """The agreement of the head with the largest agreement."""
        return max(map(max, self.agreement))


@dataclass(frozen=True)
class TrainingLog:
    """The loss every `every` training steps, from step 0, and evaluations after some of them."""

    every: int
    losses: tuple[float, ...]
    evaluations: tuple[Evaluation, ...]


def load(variant: str = "scaled dot", step: int | None = None) -> Translator:
    """Returns the translator with this variant of the encoder–decoder score, or with one vector for a sentence
    (FIXED_VECTOR), after all its training or after `step` steps.

    Raises ValueError if there is no such checkpoint; see `checkpoints`. Nothing is unpickled.

    Example:
        >>> load().translate("the cat sleeps .").text
        'le chat dort.'
    """
    shipped = checkpoints(variant)
    if step is not None and step not in shipped:
        raise value_error(
            "There are no weights of {variant} after step {step}. Use one of {steps}.",
            variant=variant,
            step=step,
            steps=", ".join(map(str, shipped)),
        )
    return _loaded(variant, shipped[-1] if step is None else step)


def checkpoints(variant: str = "scaled dot") -> tuple[int, ...]:
    """Returns the steps after which the weights of this variant were saved.

    Example:
        >>> checkpoints()[:3]
        (0, 10, 25)
    """
    score_class(variant)
    steps = sorted(int(path.stem.rpartition("-")[2]) for path in FOLDER.glob(f"{_name(variant)}-[0-9]*.safetensors"))
    if not steps:
        raise RuntimeError(_("The translator's weights are missing. {RETRAIN}", RETRAIN=RETRAIN))
    return tuple(steps)


@lru_cache(maxsize=32)
def _loaded(variant: str, step: int) -> Translator:
    model = create_model(variant)
    path = _path(variant, step)
    try:
        with safe_open(path, "pt") as file:
            if (file.metadata() or {}).get("words") != VOCABULARY_DIGEST:
                raise RuntimeError(_("{name} was trained on other words. {RETRAIN}", name=path.name, RETRAIN=RETRAIN))
            model.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except SafetensorError as error:
        raise RuntimeError(
            _("{name} cannot be read: it was damaged or cut off. {RETRAIN}", name=path.name, RETRAIN=RETRAIN)
        ) from error
    return Translator(model, variant, step)


def save(translator: Translator) -> None:
    """Saves a translator's weights in half precision."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    halves = {name: tensor.half().contiguous() for name, tensor in translator.model.state_dict().items()}
    save_file(halves, _path(translator.variant, translator.step), {"words": VOCABULARY_DIGEST})


def training_log(variant: str = "scaled dot") -> TrainingLog:
    """Returns the log of the training of this variant's weights.

    Example:
        >>> training_log().evaluations[-1].exact > 0.9
        True
    """
    checkpoints(variant)
    read = json.loads((FOLDER / f"{_name(variant)}.json").read_text())
    evaluations = [Evaluation(**{**one, "agreement": tuple(map(tuple, one["agreement"]))}) for one in read["measured"]]
    return TrainingLog(read["every"], tuple(read["losses"]), tuple(evaluations))


def save_training_log(variant: str, log: TrainingLog) -> None:
    """Saves a log beside the weights."""
    content = {"every": log.every, "losses": log.losses, "measured": [asdict(one) for one in log.evaluations]}
    (FOLDER / f"{_name(variant)}.json").write_text(json.dumps(content))


def evaluate(translator: Translator, loss: float, count: int = TEST_SENTENCES) -> Evaluation:
    """Evaluates a translator on `count` test sentences, and on `count` with unseen combinations of words."""
    test = evaluation_sentences("test", count)
    agreement = translator.agreement(test).tolist()
    return Evaluation(
        translator.step,
        round(loss, 4),
        translator.exact_match(test),
        translator.exact_match(evaluation_sentences("combinations", count)),
        tuple(tuple(round(share, 4) for share in heads) for heads in agreement),
    )


@lru_cache(maxsize=8)
def evaluation_sentences(split: Split, count: int) -> Sequence[Sentence]:
    """Returns the first sentences of a split that is kept apart for testing."""
    return list(islice(generate_sentences(split), count))


def _name(variant: str) -> str:
    return variant.replace(" ", "-")


def _path(variant: str, step: int) -> Path:
    return FOLDER / f"{_name(variant)}-{step:05d}.safetensors"
