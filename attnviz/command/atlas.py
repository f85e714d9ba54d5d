"""attnviz atlas: what each head of a model does over the texts of a file."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from attnviz.base.extras import check_installed
from attnviz.command.engine_option import add_engine_option, named_engine
from attnviz.command.output_file import check_output_folder


def main(arguments: Sequence[str]) -> None:
    """Writes the atlas, and says how far it is; ends the process with a sentence if that is not possible."""
    options = _parser().parse_args(arguments)
    try:
        check_installed("models", "An atlas")
        from attnviz.analysis.atlas import FILE, atlas
        from attnviz.models.texts import read_texts

        texts = read_texts(options.texts)
        check_output_folder(options.output)

        def progress(done: int, count: int) -> None:
            last = ", of which the atlas is made now" if done == count else ""
            print(f"{done:,} of {count:,} texts are counted{last}", file=sys.stderr, flush=True)

        if (options.output / FILE).exists():
            print(f"{options.output / FILE} is replaced at the end.", file=sys.stderr, flush=True)
        # A model reads one text at a time.
        made = atlas(options.model, texts, options.output, seed=options.seed, engine=named_engine(options.engine, 1),
                      on_progress=progress)  # fmt: skip
        print(f"{len(made.heads):,} heads over {len(texts):,} texts are in {options.output / FILE}.")
    except (ValueError, ImportError, NotImplementedError, OSError, RuntimeError) as problem:
        sys.exit(f"attnviz atlas: {problem}")
    except KeyboardInterrupt:
        sys.exit("attnviz atlas: stopped. The same command goes on from here.")


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        "attnviz atlas",
        allow_abbrev=False,
        description="Writes what each head of a model does over many texts: its metrics, where it looks, and examples.",
    )
    parser.add_argument("model", metavar="MODEL", help="an id on the Hugging Face hub, or the path of a folder")
    parser.add_argument(
        "texts", metavar="TEXTS", type=Path, help="a file with a text on each line, or .jsonl with the “text” of each"
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="FOLDER", type=Path, help="the folder of the atlas, which may be new"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the examples that are drawn (by default 0)")
    add_engine_option(parser)
    return parser
