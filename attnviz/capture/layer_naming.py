"""What the attention of a module is called, and what its tokens are."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from attnviz.layer import Layer

CROSS = re.compile(r"cross|enc_?dec_?att|encoder_attn", re.IGNORECASE)
PLAIN = re.compile("att|self|model|coder", re.IGNORECASE)  # parts of a path that do not tell a layer from another
# A part of a module's path says what stack it is in; the first of these that occurs names it.
STACKS = {
    "vision": r"vision|visual|image",
    "audio": r"audio|speech",
    "decoder": r"decoder",
    "text": r"text|language",
    "encoder": r"encoder",
}


Side = tuple[tuple[str, ...], tuple[int, ...]]  # tokens, and the positions of those that are no text


@dataclass(frozen=True)
class Names:
    """The tokens of a batch, and which side of which layer they stand on."""

    modules: dict[nn.Module, str]
    decodes: bool  # the model has an encoder and a decoder, and the tokens are the encoder's
    tokens: tuple[str, ...] = ()
    special: tuple[int, ...] = ()
    decoder_tokens: tuple[str, ...] = ()
    decoder_special: tuple[int, ...] = ()

    def cross(self, module: nn.Module) -> bool:
        marked = bool(getattr(module, "is_cross_attention", False))
        return marked or bool(CROSS.search(f"{self.modules[module]} {type(module).__name__}"))

    def layer(self, module: nn.Module) -> str:
        path = self.modules[module]
        number = re.search(r"\d+", path)
        telling = [part for part in path.split(".") if not PLAIN.search(part)]
        which = [number.group()] if number else telling[-1:]
        return " ".join([stack(path) or "layer", *which, *["cross"] * self.cross(module)])

    def sides(self, module: nn.Module, queries: int, keys: int) -> tuple[Side, Side]:
        """Tokens and special positions of the queries and of the keys."""
        of, cross = stack(self.modules[module]), self.cross(module)
        given, written = (self.tokens, self.special), (self.decoder_tokens, self.decoder_special)
        if not self.decodes:
            written = given
        sides = (written, given if cross else written) if of == "decoder" else (given, given)
        if of in ("vision", "audio"):
            sides = ((), ()), ((), ())
        return _counted(sides[0], queries), _counted(sides[1], keys)


def _counted(side: Side, count: int) -> Side:
    return side if len(side[0]) == count else (tuple(map(str, range(count))), ())


def stack(path: str) -> str:
    return next((name for name, words in STACKS.items() if re.search(words, path)), "")


def told_apart(layers: Sequence[tuple[Layer, str]]) -> list[Layer]:
    """Layers whose names differ, by all the numbers in their modules' paths, or else by the order of the calls."""
    names = [layer.name for layer, _ in layers]
    longer = [
        re.sub(r"\d+", ".".join(re.findall(r"\d+", path)), name, count=1) if names.count(name) > 1 else name
        for name, (_, path) in zip(names, layers, strict=True)
    ]
    if len(set(longer)) > len(set(names)):
        names = longer
    numbered = [f"{name} · {names[:i].count(name)}" if names.count(name) > 1 else name for i, name in enumerate(names)]
    return [replace(layer, name=name) for name, (layer, _) in zip(numbered, layers, strict=True)]
