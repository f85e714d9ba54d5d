"""The atlases that come with attnviz: SmolLM2 writes 200 texts, which it and MiniLM read.

    python -m assets.atlases.make

The texts are answers to 50 requests, four to each, drawn at temperature 0.8 with fixed seeds. On another machine, or
with another version of PyTorch, other texts may be drawn. Takes four minutes on two cores.
"""

import torch

from attnviz.analysis.atlas import SHIPPED, atlas
from attnviz.models import MINILM, SMOLLM2, load
from attnviz.models.chat import ChatMessage, encode_chat
from attnviz.models.model import LoadedModel

TOPICS = (
    "a girl called Anna and her brother Tom", "rain in a big city", "how bread is baked", "a letter from a friend",
    "the history of the bicycle", "Mary, who lost her keys", "why leaves are green", "a quiet village in the mountains",
    "two brothers who open a shop", "the moon and the tides", "a doctor and her patient",
    "cooking soup for many guests",
    "a train that is late", "how birds find their way", "John, who gave Mary a book", "the first day at school",
    "a river and its bridge", "what a computer does", "an old man and his dog", "a storm at sea",
    "the price of coffee", "a teacher and his students", "how to plant a tree", "a visit to the museum",
    "a queen and the people of her country", "why the sky is blue", "a football game", "Lisa and Paul on a long walk",
    "the work of a nurse", "a cat that sleeps all day", "a law and the judge who explains it", "music in the park",
    "a scientist and her experiment", "the first snow", "how a clock works", "a farmer and his cows",
    "moving to another city", "a secret that a child keeps", "the invention of paper", "a market on Saturday morning",
    "Peter, who wrote to his mother", "what makes a good story", "the deepest part of the ocean", "a broken window",
    "a wedding and its guests", "how to learn a language", "the oldest house in the street", "a bee and a flower",
    "a journey by ship", "two friends who disagree",
)  # fmt: skip
SEEDS, TEMPERATURE, TOKENS = 4, 0.8, 60  # texts on each topic, and tokens of a text at most


def written_texts(model: LoadedModel) -> list[str]:
    """Returns what a model answers, up to the end of its last whole sentence."""
    texts = []
    for seed, topic in enumerate(TOPICS):
        batch, _tokens, _roles = encode_chat(
            model, [ChatMessage("user", f"Write two or three sentences about {topic}.")]
        )
        torch.manual_seed(seed)
        drawn = model.model.generate(
            **batch, do_sample=True, temperature=TEMPERATURE, top_k=0, max_new_tokens=TOKENS, num_return_sequences=SEEDS
        )
        for ids in drawn[:, batch["input_ids"].shape[1] :]:
            text = " ".join(model.tokenizer.decode(ids, skip_special_tokens=True).split())
            end = max(text.rfind(mark) for mark in ".!?")
            texts.append(text[: end + 1] if end > 0 else text)
        print(topic, "·", texts[-1], flush=True)
    return texts


def main() -> None:
    """Writes the texts and both atlases."""
    texts = written_texts(load(SMOLLM2))
    for name in (SMOLLM2, MINILM):
        model = load(name)
        path = SHIPPED / f"{model.name}.safetensors"
        atlas(model, texts).save(path)
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
