"""The scripts of the components, for pages that run without the routes of app.py."""

from urllib.parse import urlsplit

from playwright.sync_api import Page, Route

from attnviz.ui.server import scripts


def provide_scripts(page: Page) -> None:
    """Answers what the page asks for as the routes of app.py would."""
    files = scripts.files()

    def answer(route: Route) -> None:
        route.fulfill(body=files[urlsplit(route.request.url).path], content_type="text/javascript")

    page.route(lambda url: "/vendor/" in url, answer)
