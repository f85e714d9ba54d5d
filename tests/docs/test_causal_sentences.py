"""Each sentence of the documentation that says what a part of a model does is in a list, with its measurement."""

import re

from tests.support.causal_sentences import ROOT, SentenceList, causal, prose

LIST = SentenceList(__file__)
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted((DOCS / "app").glob("*.md"))]
PART = re.compile(
    r"\b(heads?|layers?|MLPs?|models?|weights?|shares?|effects?|attention|softmax|logits?|norms?|gradients?)\b",
    re.IGNORECASE,
)


def places() -> dict[str, str]:
    """The sentences of the pages, with their files."""
    return {text: page.relative_to(ROOT).as_posix() for page in PAGES for text in prose(page.read_text("utf-8"))}


def test_each_sentence_that_says_what_a_part_does_is_in_the_list() -> None:
    about_parts = {text: place for text, place in places().items() if PART.search(text)}
    said = "Say in causal_sentences.toml which measurement supports it, and which test shows that."
    assert LIST.missing(about_parts) == [], said


def test_the_list_has_only_sentences_of_the_pages() -> None:
    assert LIST.unknown(places()) == []


def test_each_claim_of_a_page_has_a_measurement_and_a_test() -> None:
    LIST.check_claims()


def test_sentences_of_a_page_are_found() -> None:
    page = """# Why a heading

Heads (Clark et al. 2019) add. *Ask [Why](app/why.md).*

| | it says |
|-|-|
| share | what it **adds**
- a point
  of two lines

```python
because = 1
```
<img src="a.webp" alt="Why it says it">
"""
    assert [text for text in prose(page) if not set(text) <= {"-"}] == [
        "Heads (Clark et al. 2019) add.",
        "Ask Why.",
        "it says",
        "share",
        "what it adds",
        "a point of two lines",
        "Why it says it",
    ]
    assert causal("Why a decoder may not look ahead")
    assert not causal("Why does it look there?")
