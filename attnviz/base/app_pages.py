"""The pages of the app and the groups of its menu: a page is declared here, and its file is in `pages/`."""

from dataclasses import dataclass

from attnviz.base.language import N_


@dataclass(frozen=True)
class Page:
    """A page of the app; its texts are messages, which are translated where they are shown."""

    name: str  # of its file, and in its address
    title: str
    icon: str  # of Material Symbols
    question: str  # that the page answers
    hint: str = ""  # what to do or to see there; empty where the question says it
    has_state: bool = True  # whether its link has a state, which lessons open and views show


@dataclass(frozen=True)
class PageGroup:
    """Pages that belong together; the title is a verb."""

    title: str
    pages: tuple[Page, ...]


START = Page("start", N_("Start"), "home", N_("Which words does each word look at?"), has_state=False)
GROUPS = (
    PageGroup(
        N_("Learn"),
        (
            Page(
                "lessons",
                N_("Lessons"),
                "school",
                N_("How does attention work, in small steps?"),
                N_(
                    "From a dictionary to a language model, a few minutes each; answers are checked against what the "
                    "page computes."
                ),
                has_state=False,
            ),
            Page(
                "lookup",
                N_("Lookup"),
                "book_2",
                N_("How is attention a soft dictionary?"),
                N_("Ask for a key that is there, then for one in between. Then make the match softer."),
            ),
            Page(
                "steps",
                N_("Steps"),
                "steps",
                N_("Where does each number come from?"),
                N_("All of attention in matrices small enough to be read."),
            ),
            Page(
                "transformer",
                N_("Transformer"),
                "route",
                N_("How do words become the next word?"),
                N_("One forward pass, with its real numbers. Click a part to open it."),
            ),
        ),
    ),
    PageGroup(
        N_("Look"),
        (
            Page(
                "explore",
                N_("Explore"),
                "grid_view",
                N_("What does each token look at, in every head?"),
                N_("Type a sentence, or upload an image or vectors of your own."),
            ),
            Page(
                "write",
                N_("Write"),
                "edit_note",
                N_("What does a language model look at while it writes?"),
                N_("Type the beginning of a text, and it goes on."),
            ),
            Page(
                "heads",
                N_("Heads"),
                "hub",
                N_("What does each head do?"),
                N_("On your text, on repeated random tokens, and over many texts."),
            ),
        ),
    ),
    PageGroup(
        N_("Explain"),
        (
            Page(
                "why",
                N_("Why"),
                "account_tree",
                N_("Why does a head look there, and why does the model say that?"),
                N_("Click a term of the sum to open it."),
            ),
            Page(
                "effects",
                N_("Effects"),
                "experiment",
                N_("What would the model say without a head, a word or a part of an image?"),
                N_("Each is taken away in turn, and the model runs again."),
            ),
        ),
    ),
    PageGroup(
        N_("Compare"),
        (
            Page(
                "scores",
                N_("Scores"),
                "balance",
                N_(
                    "What changes with another similarity of queries and keys, or with another way from scores to "
                    "weights?"
                ),
            ),
            Page(
                "side_by_side",
                N_("Side by side"),
                "splitscreen_vertical_add",
                N_("What differs between two texts, or two models, in a head?"),
            ),
            Page(
                "masks",
                N_("Masks"),
                "compare",
                N_("What do two masks do to the same scores, and where do they disagree?"),
            ),
        ),
    ),
)
PAGES = {page.name: page for page in (START, *(page for group in GROUPS for page in group.pages))}
STATE_PAGES = tuple(page.name for page in PAGES.values() if page.has_state)
