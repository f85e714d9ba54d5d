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
    has_state: bool = True  # whether its link has a state, which lessons open and views show

    @property
    def hint(self) -> str:
        """What to do or to see there; empty where the question says it."""
        return HINTS.get(self.name, "")


@dataclass(frozen=True)
class PageGroup:
    """Pages that belong together; the title is a verb."""

    title: str
    pages: tuple[Page, ...]


HINTS = {  # what to do on a page, or to see there
    "lessons": N_(
        "From a dictionary to a language model, a few minutes each; answers are checked against what the page computes."
    ),
    "lookup": N_("Ask for a key that is there, then for one in between. Then make the match softer."),
    "steps": N_("All of attention in matrices small enough to be read."),
    "transformer": N_("One forward pass, with its real numbers. Click a part to open it."),
    "explore": N_("Type a sentence, or upload vectors of your own."),
    "write": N_("Type the beginning of a text, and it goes on."),
    "heads": N_("On your text, on repeated random tokens, and with a fact hidden in a long text."),
    "why": N_("Click a term of the sum to open it."),
    "effects": N_("Each head is taken away in turn, and the model runs again."),
}
ASK_WHY = N_("Why does a head look there, and why does the model say that?")
ASK_EFFECTS = N_("What does a head do, and what would the model say without it?")
ASK_SCORES = N_("What changes with another similarity of queries and keys, or with another way from scores to weights?")
ASK_SIDES = N_("What differs between two texts, or two models, in a head?")
ASK_MASKS = N_("What do two masks do to the same scores, and where do they disagree?")
START = Page("start", N_("Start"), "home", N_("Which words does each word look at?"), has_state=False)
GROUPS = (
    PageGroup(
        N_("Learn"),
        (
            Page("lessons", N_("Lessons"), "school", N_("How does attention work, in small steps?"), has_state=False),
            Page("lookup", N_("Lookup"), "book_2", N_("How is attention a soft dictionary?")),
            Page("steps", N_("Steps"), "steps", N_("Where does each number come from?")),
            Page("transformer", N_("Transformer"), "route", N_("How do words become the next word?")),
        ),
    ),
    PageGroup(
        N_("Look"),
        (
            Page("explore", N_("Explore"), "grid_view", N_("What does each token look at, in every head?")),
            Page("write", N_("Write"), "edit_note", N_("What does a language model look at while it writes?")),
            Page("heads", N_("Heads"), "hub", N_("What does each head do?")),
        ),
    ),
    PageGroup(
        N_("Explain"),
        (
            Page("why", N_("Why"), "account_tree", ASK_WHY),
            Page("effects", N_("Effects"), "experiment", ASK_EFFECTS),
        ),
    ),
    PageGroup(
        N_("Compare"),
        (
            Page("scores", N_("Scores"), "balance", ASK_SCORES),
            Page("side_by_side", N_("Side by side"), "splitscreen_vertical_add", ASK_SIDES),
            Page("masks", N_("Masks"), "compare", ASK_MASKS),
        ),
    ),
)
PAGES = {page.name: page for page in (START, *(page for group in GROUPS for page in group.pages))}
STATE_PAGES = tuple(page.name for page in PAGES.values() if page.has_state)
