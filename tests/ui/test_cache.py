"""What a job computes needs no session."""

from attnviz.base.turns import HEAVY_WORK, turn
from attnviz.page.long_maps import LONG_WORK
from attnviz.sources import Toy
from attnviz.ui.cache import VisitorResults
from attnviz.ui.server import jobs


def test_a_job_computes_heavy_work_without_a_session() -> None:
    def compute(_progress: jobs.OnResult) -> tuple[object, ...]:
        results = VisitorResults(1)
        with turn(HEAVY_WORK + 1):
            layers = results.layers(Toy("a b"))
        heavy = results.once(lambda: "heavy", "heavy", work=HEAVY_WORK + 1)
        return heavy, results.refined(lambda: "long", "long", work=LONG_WORK + 1), layers[0].inputs.query_tokens

    job = jobs.request(compute, "without a session")
    assert job.first() == ("heavy", "long", ("a", "b"))
