"""README.md as a package index shows it, where relative links lead nowhere; hatchling calls this when it builds.

The address of publication is `Repository` of `[project.urls]` in pyproject.toml. Without it, links stay relative.
"""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

CODE = r"(?s:```.*?```)|`[^`\n]*`"
RELATIVE = r"(?!#|//|[A-Za-z][\w+.-]*:)(?:\./)?(?P<path>[^\s)\"'>]+)"
LINK = re.compile(rf"{CODE}|(?P<before>\]\(|\b(?:href|src)=[\"']|^\[[^\]\n]+\]:\s+){RELATIVE}", re.MULTILINE)
IMAGES = re.compile(r"\.(apng|avif|gif|jpe?g|png|svg|webp)$")


def with_absolute_links(text: str, repository: str, version: str) -> str:
    """Returns Markdown with its relative links and images as addresses of a repository, at the tag of a version.

    The addresses are those of GitHub, to which GitLab redirects: `blob` has the page of a file, `raw` an image.
    """

    def absolute(match: re.Match[str]) -> str:
        if match["path"] is None:
            return match[0]
        kind = "raw" if IMAGES.search(match["path"]) else "blob"
        return f"{match['before']}{repository.rstrip('/').removesuffix('.git')}/{kind}/v{version}/{match['path']}"

    return LINK.sub(absolute, text) if repository else text


class PublishedReadme(MetadataHookInterface):
    """Writes the text of README.md into the metadata."""

    def update(self, metadata: dict) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata.get("urls", {}).get("Repository", "")
        text = with_absolute_links(text, repository, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
