"""A Ray cluster of several nodes on this machine."""

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from attnviz.analysis.ray_engine import connect
from tests.support.ports import free_port
from tests.support.waiting import until

SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_agent_register_timeout_ms": "120000",
    "RAY_health_check_period_ms": "500",  # a lost node is noticed soon
    "RAY_worker_niceness": "0",  # by default 15: beside other programs, tasks would wait while threads do not
}
PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")


@contextmanager
def ray_cluster(nodes: int, object_store_memory: int = 100 << 20) -> Iterator[Any]:
    """A head that computes nothing and nodes of one CPU; this process is connected to it."""
    os.environ.update(SETTINGS)
    import ray
    from ray.cluster_utils import Cluster

    sizes = {"object_store_memory": object_store_memory}
    with without_dashboard_agents():
        cluster = Cluster(
            initialize_head=True, head_node_args=sizes | ports() | {"num_cpus": 0, "include_dashboard": False}
        )
        for _ in range(nodes):
            cluster.add_node(num_cpus=1, **sizes, **ports())
    connect(cluster.address)
    until(lambda: ray.cluster_resources().get("CPU") == nodes, 180)  # which are known a little later
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def ports() -> dict[str, int]:
    """Free ports for the agents of a node; where they choose their own, Ray gives them 15 seconds to do so, which a
    busy machine exceeds."""
    return {agent: free_port() for agent in PORTS}


@contextmanager
def without_dashboard_agents() -> Iterator[None]:
    """Nodes that start meanwhile do not wait for the agents of the dashboard, which is not installed: a node would end
    if its agent did not write this after 15 seconds, and on a busy machine its imports take longer."""
    from ray._private import services

    start = services.start_raylet

    def start_raylet(*args: Any, **options: Any) -> Any:
        given = inspect.signature(start).bind(*args, **options).arguments
        Path(given["session_dir"], f"dashboard_agent_listen_port_{given['node_id']}").write_text("-1")
        return start(*args, **options)

    with mock.patch.object(services, "start_raylet", start_raylet):
        yield
