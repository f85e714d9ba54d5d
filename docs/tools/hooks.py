"""Parts of the pages that are taken from the app and from the code when they are built."""

from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs.tools.cluster_plan import cluster_plan
from docs.tools.tables import (
    gguf_own_keys,
    gguf_shared_keys,
    lessons,
    mask_costs,
    masks,
    mechanism_parts,
    pages,
    tensor_types,
    terms,
    trace_fields,
)

CATALOGUE = "<!-- the catalogue of masks -->"
PAGES = "<!-- the pages of the app -->"
PLAN = "<!-- the plan for clusters -->"
FIELDS = "<!-- the fields of trace.json -->"
PARTS = "<!-- the parts of a mechanism -->"
TYPES = "<!-- the types of tensors -->"
LESSONS = "<!-- the lessons -->"
TERMS = "<!-- the words that the app explains -->"
COSTS = "<!-- what masks cost -->"
GGUF_KEYS = "<!-- the keys of an architecture in GGUF -->"
SHARED_GGUF_KEYS = "<!-- the keys that all architectures share in GGUF -->"
TABLES = {
    CATALOGUE: masks,
    PAGES: pages,
    PLAN: cluster_plan,
    FIELDS: trace_fields,
    PARTS: mechanism_parts,
    TYPES: tensor_types,
    LESSONS: lessons,
    TERMS: terms,
    COSTS: mask_costs,
    GGUF_KEYS: gguf_own_keys,
    SHARED_GGUF_KEYS: gguf_shared_keys,
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, "icon.svg", abs_src_path="assets/icon.svg"))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    for comment, table in TABLES.items():
        if comment in markdown:
            markdown = markdown.replace(comment, table())
    return markdown
