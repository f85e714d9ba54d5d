"""The weights that are shipped, and the log of their training."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from attnviz.translator.grammar import Part, Sentence, sentences
from attnviz.translator.model import SOURCE, TARGET, Transformer, score_of
from attnviz.translator.translation import Translator

FOLDER = Path(__file__).parents[2] / "assets" / "translator"
WORDS = hashlib.blake2s("\n".join((*SOURCE, "", *TARGET)).encode(), digest_size=8).hexdigest()
TESTED = 500  # sentences by which what is shipped was measured
AGAIN = "Train it again, with “make train”."


@dataclass(frozen=True)
class Measured:
    """How good a translator is after so many steps."""

    step: int
    loss: float  # of the batch that led to this step
    exact: float  # share of test sentences that are right in every word
    combinations: float | None  # the same, of sentences with a pair of words that was never trained on
    agreement: tuple[tuple[float, ...], ...]  # with the true alignment, of each layer's heads, in test sentences

    @property
    def best(self) -> float:
        """The agreement of the head that agrees most."""
        return max(map(max, self.agreement))


@dataclass(frozen=True)
class Log:
    """What is known of a training: the loss every `every` steps, from step 0, and measures after some of them."""

    every: int
    losses: tuple[float, ...]
    measured: tuple[Measured, ...]


def load(variant: str = "scaled dot", step: int | None = None) -> Translator:
    """The translator whose encoder–decoder attention has this score, after all of its training or so many steps.

    Raises ValueError where no such weights are shipped; `steps` says which are. Nothing is unpickled.
    """
    shipped = steps(variant)
    if step is not None and step not in shipped:
        raise ValueError(
            f"There are no weights of {variant} after step {step}. Take one of {', '.join(map(str, shipped))}."
        )
    return _loaded(variant, shipped[-1] if step is None else step)


def steps(variant: str = "scaled dot") -> tuple[int, ...]:
    """The steps after which weights of this variant were kept."""
    score_of(variant)
    found = sorted(int(path.stem.rpartition("-")[2]) for path in FOLDER.glob(f"{_name(variant)}-[0-9]*.safetensors"))
    if not found:
        raise RuntimeError(f"The translator's weights are missing. {AGAIN}")
    return tuple(found)


@lru_cache(maxsize=32)
def _loaded(variant: str, step: int) -> Translator:
    model = Transformer(score_of(variant))
    path = _path(variant, step)
    try:
        with safe_open(path, "pt") as file:
            if (file.metadata() or {}).get("words") != WORDS:
                raise RuntimeError(f"{path.name} was trained on other words. {AGAIN}")
            model.load_state_dict({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118
    except SafetensorError as error:
        raise RuntimeError(f"{path.name} cannot be read: it was damaged or cut off. {AGAIN}") from error
    return Translator(model, variant, step)


def save(translator: Translator) -> None:
    """Keeps a translator's weights in half precision."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    halves = {name: tensor.half().contiguous() for name, tensor in translator.model.state_dict().items()}
    save_file(halves, _path(translator.variant, translator.step), {"words": WORDS})


def log(variant: str = "scaled dot") -> Log:
    """How the shipped weights of this variant were trained."""
    steps(variant)
    read = json.loads((FOLDER / f"{_name(variant)}.json").read_text())
    measured = [Measured(**{**one, "agreement": tuple(map(tuple, one["agreement"]))}) for one in read["measured"]]
    return Log(read["every"], tuple(read["losses"]), tuple(measured))


def save_log(variant: str, log: Log) -> None:
    """Keeps a log beside the weights, each measure in a line."""
    lines = ",\n    ".join(json.dumps(asdict(one)) for one in log.measured)
    losses = json.dumps(log.losses)
    text = f'{{\n  "every": {log.every},\n  "losses": {losses},\n  "measured": [\n    {lines}\n  ]\n}}\n'
    (FOLDER / f"{_name(variant)}.json").write_text(text)


def measure(translator: Translator, loss: float, count: int = TESTED, *, new: bool = True) -> Measured:
    """How good a translator is, on so many test sentences and, unless they are left out, as many with combinations of
    words that are new."""
    test = _some("test", count)
    agreement = translator.agreement(test).tolist()
    return Measured(
        translator.step,
        round(loss, 4),
        translator.exact(test),
        translator.exact(_some("combinations", count)) if new else None,
        tuple(tuple(round(share, 4) for share in heads) for heads in agreement),
    )


@lru_cache(maxsize=8)
def _some(part: Part, count: int) -> Sequence[Sentence]:
    return list(islice(sentences(part), count))


def _name(variant: str) -> str:
    return variant.replace(" ", "-")


def _path(variant: str, step: int) -> Path:
    return FOLDER / f"{_name(variant)}-{step:05d}.safetensors"
