"""The English and French words of the translator, with their forms."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Noun:
    """A noun. `kind` is person, animal, food, thing or place, and restricts what makes sense, not what is correct."""

    english: str
    plural: str
    french: str
    pluriel: str
    feminine: bool
    kind: str


@dataclass(frozen=True)
class Adjective:
    """An adjective. `kinds` are the kinds of nouns that it makes sense with."""

    english: str
    forms: tuple[str, str, str, str]  # petit, petite, petits, petites
    before_vowel: str  # vieil, where vieux comes before a vowel
    first: bool  # in French it stands before the noun
    kinds: str


@dataclass(frozen=True)
class Verb:
    """A verb, with the kinds of its object and of its "to" phrase; empty without one."""

    english: str  # I see; a second word belongs to it, look at
    third: str  # she sees
    forms: tuple[str, str, str]  # je vois, il voit, ils voient
    object: str = ""
    to: str = ""


def _nouns(kind: str, feminine: bool, rows: str) -> Iterator[Noun]:
    """Returns nouns from rows of English, French and irregular plurals."""
    for row in rows.split(","):
        english, french, *forms = row.split()
        plural, pluriel = forms or ("-", "-")
        yield Noun(
            english,
            f"{english}s" if plural == "-" else plural,
            french,
            f"{french}s" if pluriel == "-" else pluriel,
            feminine,
            kind,
        )


def _adjective(english: str, french: str, first: bool, kinds: str, before_vowel: str = "") -> Adjective:
    """Returns an adjective from four forms, or from one if the others are regular."""
    if " " not in french:
        feminine = french if french.endswith("e") else f"{french}e"
        french = f"{french} {feminine} {french}s {feminine}s"
    one, her, several, hers = french.split()
    return Adjective(english, (one, her, several, hers), before_vowel or one, first, kinds)


def _verb(english: str, third: str, french: str, object: str = "", to: str = "") -> Verb:
    je, il, ils = french.split()
    return Verb(english, third, (je, il, ils), object, to)


ALIVE, THINGS = "person animal", "food thing place"
ALL = f"{ALIVE} {THINGS}"

NOUNS = (
    *_nouns("person", False, "king roi, boy garçon, child enfant children -, man homme men -"),
    *_nouns("person", True, "queen reine, girl fille, woman femme women -"),
    *_nouns("animal", False, "cat chat, dog chien, lion lion, bird oiseau - oiseaux, horse cheval - chevaux"),
    *_nouns("animal", True, "cow vache, mouse souris mice souris"),
    *_nouns("food", False, "cake gâteau - gâteaux, cheese fromage, egg œuf"),
    *_nouns("food", True, "apple pomme, pear poire"),
    *_nouns("thing", False, "book livre, hat chapeau - chapeaux, boat bateau - bateaux, tree arbre"),
    *_nouns("thing", True, "letter lettre, flower fleur, car voiture, table table, key clé, star étoile"),
    *_nouns("place", False, "garden jardin, castle château - châteaux, bridge pont, hotel hôtel"),
    *_nouns("place", True, "house maison, school école, island île, church église churches -"),
)
ADJECTIVES = (
    _adjective("small", "petit", True, ALL),
    _adjective("big", "grand", True, ALL),
    _adjective("pretty", "joli", True, ALL),
    _adjective("young", "jeune", True, ALIVE),
    _adjective("good", "bon bonne bons bonnes", True, f"{ALIVE} food"),
    _adjective("old", "vieux vieille vieux vieilles", True, f"{ALIVE} thing place", "vieil"),
    _adjective("new", "nouveau nouvelle nouveaux nouvelles", True, "thing place", "nouvel"),
    _adjective("beautiful", "beau belle beaux belles", True, ALL, "bel"),
    _adjective("red", "rouge", False, f"animal {THINGS}"),
    _adjective("green", "vert", False, f"animal {THINGS}"),
    _adjective("black", "noir", False, f"animal {THINGS}"),
    _adjective("blue", "bleu", False, f"animal {THINGS}"),
    _adjective("white", "blanc blanche blancs blanches", False, f"animal {THINGS}"),
    _adjective("gray", "gris grise gris grises", False, f"animal {THINGS}"),
    _adjective("happy", "heureux heureuse heureux heureuses", False, ALIVE),
    _adjective("tired", "fatigué", False, ALIVE),
    _adjective("sad", "triste", False, ALIVE),
    _adjective("calm", "calme", False, f"{ALIVE} place"),
)
VERBS = (
    _verb("see", "sees", "vois voit voient", ALL),
    _verb("like", "likes", "aime aime aiment", ALL),
    _verb("find", "finds", "trouve trouve trouvent", ALL),
    _verb("want", "wants", "veux veut veulent", ALL),
    _verb("draw", "draws", "dessine dessine dessinent", ALL),
    _verb("look at", "looks at", "regarde regarde regardent", ALL),
    _verb("look for", "looks for", "cherche cherche cherchent", ALL),
    _verb("follow", "follows", "suis suit suivent", ALIVE),
    _verb("hear", "hears", "entends entend entendent", ALIVE),
    _verb("eat", "eats", "mange mange mangent", "food"),
    _verb("buy", "buys", "achète achète achètent", THINGS),
    _verb("give", "gives", "donne donne donnent", "food thing", ALIVE),
    _verb("show", "shows", "montre montre montrent", THINGS, "person"),
    _verb("send", "sends", "envoie envoie envoient", "food thing", "person"),
    _verb("go", "goes", "vais va vont", "", "place"),
    _verb("speak", "speaks", "parle parle parlent", "", ALIVE),
    _verb("sleep", "sleeps", "dors dort dorment"),
    _verb("run", "runs", "cours court courent"),
    _verb("sing", "sings", "chante chante chantent"),
    _verb("walk", "walks", "marche marche marchent"),
    _verb("wait", "waits", "attends attend attendent"),
    _verb("fall", "falls", "tombe tombe tombent"),
    _verb("swim", "swims", "nage nage nagent"),
    _verb("laugh", "laughs", "ris rit rient"),
    _verb("work", "works", "travaille travaille travaillent"),
    _verb("dance", "dances", "danse danse dansent"),
)
DETERMINERS = {  # before a masculine, a feminine and a plural noun
    "the": ("le", "la", "les"),
    "a": ("un", "une", ""),
    "an": ("un", "une", ""),
    "my": ("mon", "ma", "mes"),
    "her": ("son", "sa", "ses"),
    "this": ("ce", "cette", ""),
    "every": ("chaque", "chaque", ""),
    "these": ("", "", "ces"),
    "some": ("", "", "des"),
    "two": ("", "", "deux"),
}
PRONOUNS = {"I": "je", "he": "il", "she": "elle", "they": "ils"}
PREPOSITIONS = {"in": "dans", "on": "sur", "under": "sous", "behind": "derrière", "with": "avec", "near": "près"}
FREQUENCY = {"often": "souvent", "always": "toujours"}
ADVERBS = {"here": "ici", "today": "aujourd'hui", "now": "maintenant"}
QUESTION_WORDS = ("who", "where", "does", "do", "is", "are")  # what a question begins with
MARKS = (".", "?")

VOWELS = "aeiouâéèêîôœh"  # no h is heard in these words
BEFORE_VOWEL = {"le": "l'", "la": "l'", "de": "d'", "ne": "n'", "que": "qu'", "je": "j'"}
BEFORE_VOWEL |= {"ma": "mon", "sa": "son", "ce": "cet"}
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des", ("à", "le"): "au", ("à", "les"): "aux"}

ENGLISH = tuple(
    dict.fromkeys(
        word
        for words in (
            *DETERMINERS,
            *PRONOUNS,
            *(adjective.english for adjective in ADJECTIVES),
            *(form for noun in NOUNS for form in (noun.english, noun.plural)),
            *(form for verb in VERBS for form in (verb.english, verb.third)),
            *PREPOSITIONS,
            *FREQUENCY,
            *ADVERBS,
            *QUESTION_WORDS,
            *("not", "to", "of", *MARKS),
        )
        for word in words.split()
    )
)
FRENCH = tuple(
    dict.fromkeys(
        word
        for word in (
            *(form for forms in DETERMINERS.values() for form in forms if form),
            *PRONOUNS.values(),
            *(form for adjective in ADJECTIVES for form in (*adjective.forms, adjective.before_vowel)),
            *(form for noun in NOUNS for form in (noun.french, noun.pluriel)),
            *(form for verb in VERBS for form in verb.forms),
            *PREPOSITIONS.values(),
            *FREQUENCY.values(),
            *ADVERBS.values(),
            *BEFORE_VOWEL.values(),
            *CONTRACTED.values(),
            *("qui", "où", "est-ce", "que", "est", "sont", "ne", "pas", "de", "à", *MARKS),
        )
    )
)
