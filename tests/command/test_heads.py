"""attnviz heads: the heads that do mainly one thing."""

import pytest

from attnviz.analysis.strongest_heads import metrics_on_random_tokens, strongest_heads
from attnviz.command.heads import main
from attnviz.models import MINILM
from attnviz.models.minilm import minilm


def test_a_line_for_each_head(capsys: pytest.CaptureFixture[str]) -> None:
    main([MINILM, "--least", "0.7"])
    found = strongest_heads(metrics_on_random_tokens(minilm()), least=0.7)
    assert capsys.readouterr().out.splitlines() == [
        f"{name}\tencoder {one.layer}\thead {one.head}\t{one.share:.2f}"
        for name, heads in found.items()
        for one in heads
    ]
    assert found["Previous token"]


def test_a_mistake_is_a_sentence() -> None:
    with pytest.raises(SystemExit, match=r"attnviz heads: There is no folder"):
        main(["/nowhere"])


@pytest.mark.parametrize("least", ["-0.1", "2", "half", "nan"])
def test_a_share_is_from_0_to_1(least: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["/nowhere", "--least", least])
    assert "a number from 0 to 1 is needed" in capsys.readouterr().err
