"""attnviz heads: the heads of a model that do mainly one thing, such as previous-token and induction heads."""

import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence

from attnviz.base.extras import check_installed
from attnviz.base.formatting import quoted


def main(arguments: Sequence[str]) -> None:
    """Prints the heads; ends the process with a sentence if that is not possible."""
    options = _parser().parse_args(arguments)
    try:
        check_installed("models", "A trained model")
        from attnviz.analysis.strongest_heads import metrics_on_random_tokens, strongest_heads
        from attnviz.models import model_cache

        model = model_cache.model(options.model)
        names = [layer.name for layer in model.layers_of_random_tokens(0)]
        table = metrics_on_random_tokens(model)
        for name, heads in strongest_heads(table, least=options.least).items():
            for one in heads:
                print(f"{name}\t{names[one.layer]}\thead {one.head}\t{one.share:.2f}")
    except (ValueError, ImportError, NotImplementedError, OSError, RuntimeError) as problem:
        sys.exit(f"attnviz heads: {problem}")


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        "attnviz heads",
        description="Prints the heads of a model that do mainly one thing on random repeated tokens: attend to the "
        "token before, to what came after the same token before (induction), to the first token, …",
    )
    parser.add_argument("model", metavar="MODEL", help="an id on the Hugging Face hub, or the path of a folder")
    parser.add_argument(
        "--least", metavar="SHARE", type=_share, default=0.5, help="of a head's attention, from 0 to 1 (by default 0.5)"
    )
    return parser


def _share(text: str) -> float:
    try:
        if 0 <= (share := float(text)) <= 1:
            return share
    except ValueError:
        pass
    raise ArgumentTypeError(f"a number from 0 to 1 is needed; it is {quoted(text)}")
