"""Has plotly validate every figure that the tests of figures build; the app builds them without."""

from typing import Any

import plotly.graph_objects as go
import pytest


class ValidatedFigure(go.Figure):
    def __init__(self, *arguments: Any, _validate: bool = True, **options: Any) -> None:
        super().__init__(*arguments, **options)


@pytest.fixture(autouse=True)
def validate_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(go, "Figure", ValidatedFigure)
