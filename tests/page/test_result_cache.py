"""ResultCache that are computed once."""

from attnviz.page.result_cache import ResultCache, run_results


def test_the_result_used_least_recently_is_dropped_first():
    cache = ResultCache(2)
    for key in "aba":
        assert cache.once(lambda key=key: key, key) == key
    cache.once(lambda: "c", "c")
    assert cache.once(lambda: "new", "a") == "a"
    assert cache.once(lambda: "new", "b") == "new"


def test_a_run_keeps_what_it_has_asked_for_whatever_others_ask():
    cache, other = ResultCache(1), ResultCache(1)
    with run_results():
        assert cache.once(lambda: "first", "a") == "first"
        cache.once(lambda: "b", "b")
        assert other.once(lambda: "of another", "a") == "of another"
        assert cache.once(lambda: "new", "a") == "first"
        with run_results():  # a job has its own
            assert cache.once(lambda: "of a job", "a") == "of a job"
        assert cache.once(lambda: "new", "a") == "first"
    cache.once(lambda: "b", "b")
    assert cache.once(lambda: "new", "a") == "new"
