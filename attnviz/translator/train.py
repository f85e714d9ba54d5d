"""Training of the translator. `python -m attnviz.translator.train` makes the shipped weights."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from attnviz.translator import sentence_lengths, weights
from attnviz.translator.encoder_decoder import FIXED_VECTOR, PAD, VARIANTS, ForwardPass, Transformer, create_model
from attnviz.translator.grammar import generate_sentences
from attnviz.translator.translation import Translator, source_ids, target_ids

SEED, STEPS = 0, 2400
BATCH, SAMPLE, SAMPLES = 64, 2560, 24  # sentences of a step, of a sample, and samples, which come in turn
RATE, WARM = 4e-3, 100  # the greatest learning rate, and the steps until it is reached
SMOOTHING, DECAY = 0.05, 0.05  # how much of each word's probability goes to all alike, and the decay of weights
LOG_EVERY = 10  # steps from one loss in the log to the next
CHECKPOINTS = (0, 10, 25, 50, 75, 100, 150, 200, 300, 400, 500, 700, 900, 1200, 1700, STEPS)
TIMELINE = "scaled dot"  # the variant that keeps the weights of every checkpoint


@dataclass(frozen=True, eq=False)
class TrainingState:
    """The state of a training after a number of steps."""

    step: int
    loss: float  # of the latest batch: −ln of the probability of the right word, on average
    translator: Callable[[], Translator]  # makes a copy of it; call it before the next step


def train(seed: int = SEED, variant: str = TIMELINE, steps: int = STEPS) -> Iterator[TrainingState]:
    """Trains a translator from scratch; yields its state before the first step and after each step.

    AdamW on the cross entropy of every word under teacher forcing, with label smoothing, and a learning rate with
    linear warmup and decay (after Vaswani et al. 2017, 5.3 and 5.4). The losses are reproducible by seed.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = create_model(variant)
    generator = torch.Generator().manual_seed(seed)
    parameters: list[Tensor] = list(model.parameters())
    # The state and the call of torch.optim.AdamW(fused=True); the class itself would first import torch's compiler,
    # which takes longer than a hundred steps.
    means, squares = ([torch.zeros_like(one) for one in parameters] for _ in range(2))
    counts = [torch.zeros(()) for _ in parameters]
    step = 0
    while True:
        english, french = sample(step * BATCH // SAMPLE % SAMPLES)
        # Sentences that stand together are about as long, so that little of a batch is padding.
        first = int(torch.randint(SAMPLE - BATCH + 1, (), generator=generator))
        with torch.enable_grad():
            scores, words = _scores(model, english[first : first + BATCH], french[first : first + BATCH])
            loss = cross_entropy(scores, words, label_smoothing=SMOOTHING)
        unsmoothed = cross_entropy(scores.detach(), words).item()
        if step == 0:
            yield _training_state(model, variant, 0, unsmoothed)
        if step == steps:
            return
        rate = RATE * min((step + 1) / WARM, 1 - step / steps)
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        step += 1
        gradients = [one.grad for one in parameters if one.grad is not None]
        with torch.no_grad():
            torch._foreach_add_(counts, 1)
            torch._fused_adamw_(
                parameters, gradients, means, squares, [], counts, lr=rate, beta1=0.9, beta2=0.98,
                weight_decay=DECAY, eps=1e-8, amsgrad=False, maximize=False,
            )  # fmt: skip
        yield _training_state(model, variant, step, unsmoothed)


def _training_state(model: Transformer, variant: str, step: int, loss: float) -> TrainingState:
    return TrainingState(step, loss, lambda: Translator(copy.deepcopy(model), variant, step))


def _scores(
    model: Transformer, english: Int[Tensor, "batch words"], french: Int[Tensor, "batch more"]
) -> tuple[Float[Tensor, "words vocabulary"], Int[Tensor, " words"]]:
    """Returns the logits at every position under teacher forcing, and the target words."""
    lengths = (english != PAD).sum(-1)
    french = french[:, : (french != PAD).sum(-1).max()]
    forward_pass = ForwardPass(lengths=lengths)
    memory = model.encode(english[:, : lengths.max()], forward_pass)
    real = french[:, 1:] != PAD
    return model.decode(french[:, :-1], memory, forward_pass)[real], french[:, 1:][real]


@lru_cache(maxsize=SAMPLES)
def sample(number: int) -> tuple[Int[Tensor, "sentences words"], Int[Tensor, "sentences more"]]:
    """Returns a sample of training sentences as ids, ordered by length."""
    drawn = islice(generate_sentences("train", seed=number), SAMPLE)
    known = sorted(drawn, key=lambda one: (len(one.english), len(one.french)))
    return source_ids([one.english for one in known]), target_ids([one.french for one in known])


def main() -> None:
    """Trains every variant, and saves its weights and its log; then the model with a fixed vector for a sentence."""
    torch.set_num_threads(1)  # so that sums are added up in one order
    for old in weights.FOLDER.glob("*.safetensors"):
        old.unlink()
    for variant in VARIANTS:
        losses, evaluations = [], []
        for now in train(SEED, variant, STEPS):
            if now.step % LOG_EVERY == 0:
                losses.append(round(now.loss, 4))
            if now.step in CHECKPOINTS:
                if variant == TIMELINE or now.step == STEPS:
                    weights.save(now.translator())
                    translator = weights.load(variant, now.step)
                else:
                    translator = now.translator()
                evaluations.append(weights.evaluate(translator, now.loss))
                latest = evaluations[-1]
                print(
                    f"{variant}, step {latest.step}: loss {latest.loss}, exact {latest.exact:.1%}, of new combinations "
                    f"{latest.combinations:.1%}, best agreement {latest.best:.1%}",
                    flush=True,
                )
        weights.save_training_log(variant, weights.TrainingLog(LOG_EVERY, tuple(losses), tuple(evaluations)))
    train_fixed_vector()


def train_fixed_vector() -> None:
    """Trains the model with a fixed vector, and saves its weights and how it compares by the length of sentences."""
    for now in train(SEED, FIXED_VECTOR, STEPS):
        if now.step == STEPS:
            weights.save(now.translator())
    sentence_lengths.save_accuracies()
    for variant, accuracies in sentence_lengths.shipped_accuracies().items():
        print(variant, *(f"{one.length}: {one.sentences:.0%} {one.words:.0%}" for one in accuracies), flush=True)


if __name__ == "__main__":
    main()
