import re
from collections import Counter
from itertools import islice, pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz.translator import EXAMPLES, generate_sentences, parse_sentence, tokenize
from attnviz.translator.grammar import MAX_WORDS, random_sentence
from attnviz.translator.lexicon import ENGLISH, FRENCH, NOUNS
from attnviz.translator.translation import detokenize

PARTS = ("train", "test", "combinations")
seeds = st.integers(0, 99_999)

# English, French, and for each French word the places of its English ones; written by hand.
KNOWN = [
    ("the small red car is beautiful .", "la petite voiture rouge est belle.", "0 1 3 2 4 5 6"),
    ("the old bird does not see the horses .", "le vieil oiseau ne voit pas les chevaux.", "0 1 2 4 5 4 6 7 8"),
    ("the old birds do not see a horse .", "les vieux oiseaux ne voient pas de cheval.", "0 1 2 4 5 4 6 7 8"),
    ("she does not like the garden of the king .", "elle n'aime pas le jardin du roi.", "0 2 3 2 4 5 67 8 9"),
    ("I like my new school .", "j'aime ma nouvelle école.", "0 1 2 3 4 5"),
    ("I like my school .", "j'aime mon école.", "0 1 2 3 4"),
    ("he looks at this man .", "il regarde cet homme.", "0 12 3 4 5"),
    ("he looks for this old man .", "il cherche ce vieil homme.", "0 12 3 4 5 6"),
    ("the girls give some flowers to the children .", "les filles donnent des fleurs aux enfants.", "0 1 2 3 4 56 7 8"),
    (
        "the girls give some pretty flowers to the king .",
        "les filles donnent de jolies fleurs au roi.",
        "0 1 2 3 4 5 67 8 9",
    ),
    ("two mice sleep near the bridge .", "deux souris dorment près du pont.", "0 1 2 3 34 5 6"),
    ("two mice sleep near a tree .", "deux souris dorment près d'un arbre.", "0 1 2 3 3 4 5 6"),
    ("they go to the island today .", "ils vont à l'île aujourd'hui.", "0 1 2 3 4 5 6"),
    ("does she often dance with her dog ?", "est-ce qu'elle danse souvent avec son chien ?", "0 0 1 3 2 4 5 6 7"),
    ("do these children work ?", "est-ce que ces enfants travaillent ?", "0 0 1 2 3 4"),
    ("are the gray keys new ?", "est-ce que les clés grises sont nouvelles ?", "0 0 1 3 2 0 4 5"),
    (
        "the calm queens are not always happy .",
        "les reines calmes ne sont pas toujours heureuses.",
        "0 2 1 4 3 4 5 6 7",
    ),
    ("who does not eat an egg ?", "qui ne mange pas d'œuf ?", "0 2 3 2 4 5 6"),
    ("where are the eggs of every woman ?", "où sont les œufs de chaque femme ?", "0 1 2 3 4 5 6 7"),
    ("a beautiful hotel is always big .", "un bel hôtel est toujours grand.", "0 1 2 3 4 5 6"),
    ("this hotel is beautiful today .", "cet hôtel est beau aujourd'hui.", "0 1 2 3 4 5"),
    ("some new boats are behind", None, None),
    ("a apple falls .", None, None),
    ("the cats sleeps .", None, None),
    ("these cat sleep .", None, None),
]

GENDERS = """
un roi, des rois; un garçon, des garçons; un enfant, des enfants; un homme, des hommes; une reine, des reines;
une fille, des filles; une femme, des femmes; un chat, des chats; un chien, des chiens; un lion, des lions;
un oiseau, des oiseaux; un cheval, des chevaux; une vache, des vaches; une souris, des souris; un gâteau, des gâteaux;
un fromage, des fromages; un œuf, des œufs; une pomme, des pommes; une poire, des poires; un livre, des livres;
un chapeau, des chapeaux; un bateau, des bateaux; un arbre, des arbres; une lettre, des lettres;
une fleur, des fleurs; une voiture, des voitures; une table, des tables; une clé, des clés; une étoile, des étoiles;
un jardin, des jardins; un château, des châteaux; un pont, des ponts; un hôtel, des hôtels; une maison, des maisons;
une école, des écoles; une île, des îles; une église, des églises
"""


@pytest.mark.parametrize(("english", "french", "alignment"), KNOWN)
def test_french_and_alignment_as_written_by_hand(english, french, alignment):
    sentence = parse_sentence(tuple(english.split()))
    if french is None:
        assert sentence is None
    else:
        assert detokenize(sentence.french) == french
        assert sentence.alignment == tuple(tuple(map(int, places)) for places in alignment.split())


def test_gender_and_plural_of_every_noun():
    known = [re.fullmatch(r"(une?) (\S+), des (\S+)", one.strip()).groups() for one in GENDERS.split(";")]
    assert [("une" if noun.feminine else "un", noun.french, noun.pluriel) for noun in NOUNS] == known


def test_training_has_every_word_and_no_other(as_installed):
    assert len(ENGLISH) >= 80
    known = list(islice(generate_sentences("train"), 5000))
    for vocabulary, used in ((ENGLISH, [one.english for one in known]), (FRENCH, [one.french for one in known])):
        counts = Counter(word for words in used for word in words)
        assert set(counts) == set(vocabulary)
        assert len(set(vocabulary)) == len(vocabulary)


def test_parts_are_disjoint_and_whole_combinations_are_never_trained_on(as_installed):
    parts = {part: list(islice(generate_sentences(part, seed=3), 500)) for part in PARTS}
    english = {part: {one.english for one in known} for part, known in parts.items()}
    assert all(len(english[part]) == 500 for part in PARTS)  # no two the same
    assert not english["train"] & english["test"]
    pairs = {part: {pair for one in known for pair in one.pairs} for part, known in parts.items()}
    new = pairs["combinations"] - pairs["train"] - pairs["test"]
    assert all(new & set(one.pairs) for one in parts["combinations"])
    apart = {word for pair in new for word in pair}
    assert apart <= {word for pair in pairs["train"] for word in pair}  # each of their words was seen, with others


def test_the_same_seed_draws_the_same_sentences():
    first, again, other = (list(islice(generate_sentences("train", seed), 20)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@given(seeds)
def test_what_is_drawn_is_read_back(seed):
    sentence = random_sentence(Random(seed))
    assert len(sentence.english) <= MAX_WORDS
    assert parse_sentence(sentence.english) == sentence
    assert parse_sentence(sentence.english[:-1]) is None
    assert tokenize(" ".join(sentence.english)) == sentence.english


@given(seeds)
def test_alignment_has_a_place_for_every_word(seed):
    sentence = random_sentence(Random(seed))
    assert len(sentence.alignment) == len(sentence.french)
    assert all(places and set(places) <= set(range(len(sentence.english))) for places in sentence.alignment)
    silent = set(range(len(sentence.english))) - {place for places in sentence.alignment for place in places}
    assert {sentence.english[place] for place in silent} <= {"do", "does"}  # in a negation, which is "not"
    assert bool(silent) == ("not" in sentence.english and bool({"do", "does"} & set(sentence.english)))


@given(seeds)
def test_french_words_meet_as_they_must(seed):
    sentence = random_sentence(Random(seed))
    for word, following_word in pairwise(sentence.french):
        vowel = re.match("[aeiouâéèêîôœh]", following_word) is not None
        assert (word, following_word) not in {("de", "le"), ("de", "les"), ("à", "le"), ("à", "les")}
        if word in {"le", "la", "de", "ne", "que", "je", "ma", "sa", "ce"}:
            assert not vowel
        if word.endswith("'") or word in {"cet", "bel", "vieil", "nouvel"}:
            assert vowel


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cat doesn't sleep", "the cat does not sleep ."),
        ("  i LIKE my school.", "I like my school ."),
        ("is the old hat red", "is the old hat red ?"),
        ("They aren’t happy.", "they are not happy ."),
    ],
)
def test_a_text_is_read_as_a_person_types_it(text, words):
    assert " ".join(tokenize(text)) == words


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("the catt sleeps", "The translator knows 180 words, but not “catt”. Did you mean “cat”?"),
        ("I love the castel", "180 words, but not “love” and “castel”. Did you mean “castle”?"),
        ("the zzzz sleeps", "180 words, but not “zzzz”."),
        ("", "There is no text yet."),
        ("the cat " * 9, "This text has 19 tokens, and this translator reads at most 16."),
        ("the " + "c" * 999, "c…”."),
    ],
)
def test_what_cannot_be_read_is_said_in_words(text, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        tokenize(text)


def test_examples_are_sentences():
    assert all(" ".join(parse_sentence(tokenize(example)).english) == example for example in EXAMPLES)
