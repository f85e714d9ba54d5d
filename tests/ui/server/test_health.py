"""Whether the app says that it is alive and ready."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from attnviz.ui.server import hosting
from attnviz.ui.server.health import HealthChecks, Readiness


@pytest.mark.parametrize("base", ["", "attn"])
def test_it_is_alive_before_it_is_ready_at_every_host_name(base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamlit.get_option", lambda name: base if name == "server.baseUrlPath" else ["localhost"])
    readiness = Readiness()
    checks = Middleware(HealthChecks, readiness=readiness)
    client = TestClient(Starlette(middleware=[checks, Middleware(hosting.AllowedHosts)]), "http://172.17.0.2:8501")
    below = f"/{base}" if base else ""
    assert client.get(f"{below}/healthz").text == "alive\n"
    assert client.get(f"{below}/readyz").status_code == 503
    readiness.is_ready = True
    ready = client.get(f"{below}/readyz")
    assert (ready.status_code, ready.text, ready.headers["cache-control"]) == (200, "ready\n", "no-store")
    assert client.get(f"{below}/").status_code == 403  # only these answer at any name
