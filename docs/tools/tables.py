"""The tables of the documentation that come from the code.

`python -m docs.tools.tables` writes those of the architectures, which take too long to be made in every build, and that
of README; `python -m docs.tools.tables readme` writes that of README alone.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from attnviz.base.app_pages import GROUPS as PAGE_GROUPS
from attnviz.base.app_pages import START
from attnviz.base.formatting import grouped
from attnviz.base.language import LANGUAGES
from attnviz.biases import Bias
from attnviz.layer import Fidelity
from attnviz.lessons.lesson_files import ENGLISH, FOLDER, read_lessons
from attnviz.masks import GROUPS, parse
from attnviz.masks.cost import cost
from attnviz.models import gguf_keys
from attnviz.normalizers import Normalizer
from attnviz.page.glossary import GLOSSARY
from attnviz.scores import Score
from attnviz.trace.layer_file import TYPES
from attnviz.trace.mechanism_parts import CLASSES
from attnviz.trace.schema import OBJECTS

ARCHITECTURES = Path(__file__).parents[1] / "tables" / "architectures.md"
ATTRIBUTIONS = ARCHITECTURES.with_name("attributions.md")
COST_TOKENS = 131_072
COST_MASKS = (
    "causal",
    "sliding_window(4096)",
    "sinks_and_window(4, 4092)",
    "causal & q // 4096 == k // 4096",
    "causal & dilated_window(4096, 4)",
    "causal & (q - k) % 8 == 0",
)
# What the objects in the trace.json of a trace are.
TRACE_OBJECTS = {
    "trace.json": "The whole file",
    "axis": "An axis: the tokens of queries or keys",
    "grid": "A grid: the patches of an image among the tokens",
    "layer": "A layer",
    "id": "The id of a layer",
    "mechanism": "A mechanism",
}
README = Path(__file__).parents[2] / "README.md"
SUPPORT = re.compile(r"(?<=<!-- support, by docs/tools/tables.py -->\n\n).*?(?=\n<!-- end of support -->)", re.DOTALL)


def table(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Returns a table in Markdown."""
    header = list(header)
    lines = [header, ["-"] * len(header), *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def terms() -> str:
    """Returns the words that the app explains, with their sentences, as a list of definitions."""
    return "\n".join(f"{forms.split('|')[0]}\n:   {sentence}\n" for forms, sentence in GLOSSARY.items())


def masks() -> str:
    """Returns every mask of the catalogue with its parameters' first values, group by group."""
    parts = (
        f"### {group}\n\n"
        + table(("mask", "with the values at the left"), ((f"`{mask()}`", mask().describe()) for mask in kinds))
        for group, kinds in GROUPS.items()
    )
    return "\n".join(parts)


def pages() -> str:
    """Returns the pages of the app, in the groups of its menu, and the question that each answers."""
    entries = [("", START), *((group.title, page) for group in PAGE_GROUPS for page in group.pages)]
    rows = ((group, f"[{page.title}]({page.name}.md)", page.question) for group, page in entries)
    return table(("group", "page", "it answers"), rows)


def gguf_own_keys() -> str:
    """Returns the keys of an architecture in a GGUF file, and in which they are read, accepted with one value, or
    without effect."""
    kinds = gguf_keys.ARCHITECTURES
    tables = [gguf_keys.ONLY, gguf_keys.IMPLIED, gguf_keys.SCALING, gguf_keys.NO_EFFECT]
    tables += [part for one in kinds.values() for part in (one.keys, one.only, one.implied, one.no_effect)]
    rows = []
    for key in sorted({key for part in tables for key in part} | {gguf_keys.ROTARY, gguf_keys.POOLING}):
        by_role: dict[str, list[str]] = {}
        for kind in kinds:
            if (role := gguf_keys.key_class(f"{kind}.{key}", kind)) == gguf_keys.ONE_VALUE:
                role = _only(gguf_keys.accepted_values(f"{kind}.{key}", kind))
            by_role.setdefault(role, []).append(kind)
        most = max(by_role, key=lambda role: len(by_role[role]))
        others = [f"{role}: {', '.join(found)}" for role, found in by_role.items() if role != most]
        rows.append((f"`{key}`", "; ".join([most, *others])))
    return table(("key, after the architecture", "what is done with it"), rows)


def gguf_shared_keys() -> str:
    """Returns the keys of a GGUF file that all architectures share, and what is done with them."""
    by_role: dict[str, list[str]] = {gguf_keys.READ_HERE: [*gguf_keys.READ]}
    for key, values in gguf_keys.SHARED_ONLY.items():
        by_role.setdefault(_only(values), []).append(key)
    by_role[gguf_keys.WITHOUT_EFFECT] = [*gguf_keys.SHARED_NO_EFFECT]
    by_role[f"any other is {gguf_keys.REFUSED}"] = [f"{space}.*" for space in gguf_keys.CLOSED]
    rows = ((", ".join(f"`{key}`" for key in keys), role) for role, keys in by_role.items())
    return table(("keys", "what is done with them"), rows)


def _only(values: Iterable[object]) -> str:
    return f"only {' or '.join('empty' if value in ('', []) else str(value) for value in values)}"


def trace_fields() -> str:
    """Returns the fields of each object in the trace.json of a trace."""
    header = ("field", "holds", "default", "meaning")
    parts = []
    for name, fields in OBJECTS.items():
        rows = (
            (
                f"`{field.name}`",
                field.holds,
                "needed" if field.is_needed else f"`{json.dumps(field.default)}`",
                field.meaning,
            )
            for field in fields
        )
        parts.append(f"### {TRACE_OBJECTS[name]}\n\n{table(header, rows)}")
    return "\n".join(parts)


def mechanism_parts() -> str:
    """Returns the names of the scores, biases and normalizers that a trace may name."""
    return table(
        ("part", "names"),
        (
            (kind.__name__.lower(), ", ".join(f"`{name}`" for name, part in CLASSES.items() if issubclass(part, kind)))
            for kind in (Score, Bias, Normalizer)
        ),
    )


def tensor_types() -> str:
    """Returns the types of tensors in a trace, in a sentence."""
    return f"Types are {', '.join(f'`{name}`' for name in TYPES)}.\n"


def lessons() -> str:
    """Returns the lessons in English with what each is about, and the other languages that it is in."""
    every, _broken = read_lessons(FOLDER)
    titles = {page.name: page.title for group in PAGE_GROUPS for page in group.pages}
    languages: dict[str, list[str]] = {}  # by number: de-01-woerterbuch is a translation of 01-dictionary
    for lesson in every:
        if lesson.language != ENGLISH:
            languages.setdefault(lesson.name.split("-")[1], []).append(LANGUAGES[lesson.language])
    rows = (
        (
            f"{number} **{lesson.title}{'' if lesson.title.endswith('?') else '.'}** {lesson.about}{translated}",
            ", ".join(f"[{titles[page]}](app/{page}.md)" for page in dict.fromkeys(one.page for one in lesson.steps)),
            len(lesson.steps),
        )
        for lesson in every
        if lesson.language == ENGLISH
        for number in [lesson.name.split("-")[0]]
        for translated in ["".join(f" *{language}*" for language in languages.get(number, ()))]
    )
    return table(("lesson", "pages", "questions"), rows)


def mask_costs() -> str:
    """Returns what some masks cost in a long text, by pairs and by blocks."""
    rows = (
        (
            f"`{text}`",
            _percent(found.kept, found.queries * found.keys),
            _percent(found.blocks_kept, found.blocks),
            _percent(found.blocks_partial, found.blocks_kept),
            grouped(found.cached or 0),
        )
        for text in COST_MASKS
        for found in [cost(parse(text), COST_TOKENS, COST_TOKENS)]
    )
    return table(("mask", "pairs", "blocks", "evaluated", "cached"), rows)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.3g}\u00a0%"


def architectures() -> str:
    """Returns the architectures that the tests compare with `attnviz.capture`, and what is shown of each."""
    from tests.support.architectures import ZOO  # it imports transformers
    from tests.support.torch_architectures import TORCH_ZOO

    every = (*ZOO, *TORCH_ZOO)
    counts = {fidelity: sum(one.fidelity == fidelity for one in every) for fidelity in Fidelity}
    rows = ((one.name, f"`{one.config}`", one.layers, one.fidelity) for one in every)
    summary = ", ".join(f"{count} `{fidelity}`" for fidelity, count in counts.items() if count)
    header = ("architecture", "config in transformers, or module", "attention layers in the test", "fidelity")
    return f"{len(every)} architectures: {summary}.\n\n{table(header, rows)}"


def attributions(rows: Iterable[Iterable[object]]) -> str:
    """Returns the sums of the architectures, of these rows."""
    header = ("architecture", "layers with heads", "MLPs", "error of an output", "error of a score", "held as factors")
    return table(header, rows)


def support() -> str:
    """Returns what is supported, and by which tests that is known, in numbers: the table of README."""
    from attnviz.biases import BIASES
    from attnviz.masks import MASKS
    from attnviz.normalizers import NORMALIZERS
    from attnviz.scores import SCORES
    from attnviz.sources.upload import READERS

    fidelities = Counter(re.findall(r"\| (verified|weights_only) \|$", ARCHITECTURES.read_text("utf-8"), re.MULTILINE))
    sums = ATTRIBUTIONS.read_text("utf-8").splitlines()[2:]
    languages = Counter(lesson.language for lesson in read_lessons(FOLDER)[0])
    rows = (
        (
            "models",
            f"**[{fidelities.total()} architectures](docs/verification.md)** in the tests: {fidelities['verified']} "
            f"recomputed and equal to the model's own weights, {fidelities['weights_only']} shown with these; outputs "
            f"of {sum('| < 10' in row for row in sums)} [as a sum](docs/attribution.md) over heads and MLPs",
        ),
        (
            "from",
            "Hugging Face, GGUF, any `torch.nn.Module`; results of transformers, TransformerLens, nnsight; "
            f"[traces](docs/traces.md); {', '.join(ending.removeprefix('.') for ending in READERS)}",
        ),
        (
            "attention",
            f"{len(SCORES)} scores, {len(BIASES)} biases, {len(NORMALIZERS)} normalizers, [{len(MASKS)} masks]"
            "(docs/masks.md) and a language for more; code for FlexAttention, SDPA, NumPy",
        ),
        (
            "from Python",
            "effects, sums and patching of [parts](docs/many-texts.md#parts-of-a-model) at any position, in one text "
            "or in [many](docs/many-texts.md), with mean and spread; circuits from both sides; an atlas of what each "
            "head and MLP does over all of them",
        ),
        (
            "images",
            "the weights of a token [over the image](docs/app/explore.md) that the model saw, and what changes where a "
            "region is hidden: of DINOv2-small, which is [installed apart](docs/start.md#images), of other vision "
            "transformers, and of [models that read images and texts](docs/images.md#an-image-and-a-text-in-the-app)",
        ),
        (
            "app",
            f"{sum(len(group.pages) for group in PAGE_GROUPS)} pages, [{languages[ENGLISH]} lessons]"
            "(docs/app/lessons.md), English and German; 100 phones in a [class](docs/app/class.md)",
        ),
    )
    return table(("", ""), rows)


def main(names: Sequence[str]) -> None:
    if "readme" not in names:
        from tests.support.architectures import ZOO
        from tests.support.attributions import sums
        from tests.support.torch_architectures import TORCH_ZOO

        ARCHITECTURES.write_text(architectures(), "utf-8")
        ATTRIBUTIONS.write_text(attributions(sums(one).row for one in (*ZOO, *TORCH_ZOO)), "utf-8")
    README.write_text(SUPPORT.sub(lambda _: support(), README.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
