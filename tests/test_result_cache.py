"""ResultCache that are computed once."""

from attnviz.result_cache import ResultCache


def test_the_result_used_least_recently_is_dropped_first():
    cache = ResultCache(2)
    for key in "aba":
        assert cache.once(lambda key=key: key, key) == key
    cache.once(lambda: "c", "c")
    assert cache.once(lambda: "new", "a") == "a"
    assert cache.once(lambda: "new", "b") == "new"
