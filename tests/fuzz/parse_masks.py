"""Feeds the language of masks texts that grow toward code not yet run, for as long as one likes.

    pip install atheris==3.0.0
    python tests/fuzz/parse_masks.py -max_total_time=60

Every text must give a mask or a MaskError. A mask must be read back from its own text, say itself in English, and
compute on 6 × 7 cells what its rule computes once written down. What breaks this is printed and saved as crash-…; run
it again with `python tests/fuzz/parse_masks.py crash-…`. A folder given as an argument keeps what was found on the way.

After an even byte stands a text; after an odd one, each byte stands for a word of the language.
"""

import sys
from pathlib import Path

import atheris
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

with atheris.instrument_imports(include=["attnviz.masks"]):
    from attnviz.masks.mask import rule
    from attnviz.masks.mask_parameters import names
    from attnviz.masks.parser import FUNCTIONS, POSITIONS, MaskError, parse
    from attnviz.masks.token_reader import HINTS, UNICODE

WORDS = [
    *(*names(), *POSITIONS, *FUNCTIONS, *HINTS, *UNICODE, "and", "or", "not", "keys_seen", "steps_back", "top_left"),
    *("bottom_right", "size", "counts", "lengths", "inner", "mask", "by", "keys", "prefix", "parents", "spans"),
    *(["+", "-", "*", "//", "%", "<", "<=", "==", "!=", ">=", ">", "&", "|", "~", "(", ")", "[", "]", ",", "="]),
    *(["0", "1", "2", "3", "7", "12", "64", "512", "4096", "1000000000", "0x", "0x1", "0x1f"]),
    *(" ", "\n", "k < 2", "q - k", "[3, 4]"),
]
B, H, Q, K = torch.tensor(0), torch.tensor(0), torch.arange(6)[:, None], torch.arange(7)


def attempt(text: str):
    try:
        return parse(text)
    except MaskError as error:
        return error


def one(data: bytes) -> None:
    if data[:1] and data[0] % 2:
        text = " ".join(WORDS[byte % len(WORDS)] for byte in data[1:])
    else:
        text = data[1:].decode(errors="surrogateescape")
    mask = attempt(text)
    if isinstance(mask, MaskError):
        assert 0 <= mask.position <= len(text), text
        assert str(mask).startswith("At "), text
        assert mask.pointer.endswith("^"), text
        return
    assert parse(str(mask)) == mask, text
    assert hash(mask) == hash(parse(text))
    assert mask.describe().endswith("."), text
    try:
        bound = mask.bind(6, 7, 1)
    except ValueError:  # it is made for other lengths alone
        return
    computed = bound(B, H, Q, K).expand(6, 7)
    assert torch.equal(computed, rule(mask, 6, 7)(B, H, Q, K).expand(6, 7)), text


if __name__ == "__main__":
    torch.set_num_threads(1)
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
