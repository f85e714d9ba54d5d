"""Writes the samples beside this file: one of each format that can be uploaded, the same numbers every time."""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save

HERE = Path(__file__).parent
ANIMAL = ("The", "animal", "did", "not", "cross", "the", "street", "because", "it", "was", "tired")
FRENCH = ("Le", "chat", "noir", "dort", "sur", "le", "canapé")
ENGLISH = ("The", "black", "cat", "sleeps", "on", "the", "sofa")
ALIGNED = (0, 2, 1, 3, 4, 5, 6)  # the French word of each English one


def positions(count: int, width: int) -> np.ndarray:
    """Sines and cosines of several speeds: the nearer two positions, the more alike (Vaswani et al. 2017)."""
    angle = np.arange(count)[:, None] / 20 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(count, width)


def looking(target: list[int], width: int, sharp: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Queries and keys such that token i looks most at token target[i]."""
    key = np.random.default_rng(seed).standard_normal((len(target), width))
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    return key[target] * sharp * width**0.5, key


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def heads(tokens: int) -> dict[str, np.ndarray]:
    """Four heads of one sentence: the token before, the same token, the first token, and what "it" means."""
    means = [1, 1, 1, 2, 1, 6, 6, 4, 1, 8, 1]
    targets = [[max(i - 1, 0) for i in range(tokens)], list(range(tokens)), [0] * tokens, means]
    pairs = [looking(target, 16, 5, seed) for seed, target in enumerate(targets)]
    query, key = (np.stack(part) for part in zip(*pairs, strict=True))
    return {"query": query, "key": key, "value": np.random.default_rng(9).standard_normal((4, tokens, 16))}


def grouped(layers: int, tokens: int) -> dict[str, np.ndarray]:
    """Layers of six query heads that share two key heads, and look sharper from layer to layer."""
    place = positions(tokens, 16)
    key = np.stack([place, np.roll(place, 2, axis=0)])
    query = np.stack([np.roll(place, shift, axis=0) for shift in (0, 1, 2, 0, 1, 2)])
    return {
        "query": np.stack([query * 0.7 * 2**layer for layer in range(layers)]),
        "key": np.stack([key] * layers),
        "value": np.random.default_rng(4).standard_normal((layers, 2, tokens, 8)),
    }


def families() -> tuple[list[str], np.ndarray]:
    """Words as points: those of one family lie close together, so that each looks at its own."""
    words = ["cat", "dog", "horse", "red", "green", "blue", "Paris", "Rome", "Oslo"]
    random = np.random.default_rng(3)
    centers = np.repeat(np.eye(8)[:3] * 3, 3, axis=0)
    return words, (centers + random.normal(0, 0.5, centers.shape)).round(3)


def translation() -> np.ndarray:
    """Weights of a translator: each English word on the French word it stands for, and a little beside it."""
    scores = np.random.default_rng(5).normal(0, 0.5, (len(ENGLISH), len(FRENCH)))
    scores[range(len(ENGLISH)), ALIGNED] += 4
    return softmax(scores)


def npz(arrays: dict[str, np.ndarray]) -> bytes:
    """As numpy.savez_compressed, but with a fixed date, so that the bytes are the same every time."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.save(member, array)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue(), zipfile.ZIP_DEFLATED)
    return file.getvalue()


def samples() -> dict[str, bytes]:
    """The content of each file, by its name."""
    clock, column, table = io.BytesIO(), io.BytesIO(), pd.DataFrame(families()[1], index=families()[0])
    np.save(clock, positions(12, 32).astype(np.float32) * 2)
    table.columns = [f"d{i}" for i in range(table.shape[1])]
    table = table.rename_axis("token").reset_index()
    query, key = looking([1, 1, 4, 4, 4, 7, 7, 7], 12, 3, seed=11)
    lists = {
        "token": ["she", "gave", "the", "old", "book", "to", "her", "friend"],
        "query": list(query),
        "key": list(key),
    }
    pd.DataFrame(lists).to_parquet(column, index=False)
    four = {name: array.astype(np.float32) for name, array in heads(len(ANIMAL)).items()}
    layers = {name: torch.tensor(array, dtype=torch.bfloat16) for name, array in grouped(3, 10).items()}
    counting = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    weights = {
        "tokens": ENGLISH,
        "key_tokens": FRENCH,
        "weights": translation().round(4).tolist(),
    }
    return {
        "four-heads.npz": npz({**four, "tokens": np.array(ANIMAL)}),
        "positions.npy": clock.getvalue(),
        "grouped-layers.safetensors": save(layers, {"tokens": json.dumps(counting)}),
        "word-families.csv": table.to_csv(index=False, lineterminator="\n").encode(),
        "word-families.tsv": table.to_csv(index=False, lineterminator="\n", sep="\t").encode(),
        "translation-weights.json": (json.dumps(weights, ensure_ascii=False) + "\n").encode(),
        "query-key-columns.parquet": column.getvalue(),
    }


if __name__ == "__main__":
    for name, content in samples().items():
        (HERE / name).write_bytes(content)
