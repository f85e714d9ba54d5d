"""What the tests share."""

from importlib import import_module


def pytest_configure(config):
    """With -n, only the workers need the fixtures, whose imports take seconds: this process runs no test."""
    if config.option.dist == "no":
        for name in ("fixtures", "tiny_models"):
            config.pluginmanager.register(import_module(f"tests.support.{name}"))


def pytest_collection_modifyitems(items):
    """Browser tests come first: they are the longest, and what is short at the end keeps all workers busy until then.
    One worker begins with them, so that mostly one of them starts a server and a browser."""
    items.sort(key=lambda item: "e2e" not in item.path.parts)


def pytest_terminal_summary(terminalreporter):
    """The tables that tests have written, a row each, with record_property(header, row)."""
    tables = {}
    for report in [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]:
        for header, row in report.user_properties:
            tables.setdefault(header, set()).add(row)
    for header, rows in tables.items():
        terminalreporter.write_line("")
        for line in (header, *sorted(rows)):
            terminalreporter.write_line(line)
