"""What `make release` finds in the way of a release, in a repository of its own."""

import re
import shutil
import subprocess
from datetime import date
from pathlib import Path

import pytest
import yaml
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from attnviz import __version__
from docs.tools.published_readme import with_absolute_links
from docs.tools.release import commands, git_problems, link_problems, notes, problems_of, text_problems

ROOT = Path(__file__).parents[2]
HOME = "https://example.org/owner/attnviz"
FILES = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CITATION.cff",
    "attnviz/__init__.py",
    "docs/tools/published_readme.py",
)
CHANGES = "### The app\n\n- **Start**: a page.\n\n### The library\n\n- `capture`.\n"
# https://github.com/citation-file-format/citation-file-format/blob/1.2.0/schema-guide.md
CITATION_REQUIRED = {"authors", "cff-version", "message", "title"}
CITATION_FIELDS = CITATION_REQUIRED | {
    *("abstract", "commit", "contact", "date-released", "doi", "identifiers", "keywords", "license", "license-url"),
    *("preferred-citation", "references", "repository", "repository-artifact", "repository-code"),
    *("type", "url", "version"),
}


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    return subprocess.run(["git", *who, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def replace(file: Path, pattern: str, text: str) -> None:
    changed, count = re.subn(pattern, text, file.read_text("utf-8"), count=1)
    assert count == 1
    file.write_text(changed, "utf-8")


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A repository in which nothing is in the way of a release."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    urls = tmp_path / "pyproject.toml"
    if "\n[project.urls]" not in urls.read_text("utf-8"):
        replace(urls, r"\n\[project\.scripts\]", f'\n[project.urls]\nRepository = "{HOME}"\n\n[project.scripts]')
    replace(urls, r"(?m)^Repository = .*$", f'Repository = "{HOME}"')
    (tmp_path / "CHANGELOG.md").write_text(
        f"# Changelog\n\n## {__version__} (2030-01-31)\n\n{CHANGES}\n## 0.0.1\n\nOld.\n"
    )
    citation = yaml.safe_load((tmp_path / "CITATION.cff").read_text("utf-8"))
    citation |= {"date-released": date(2030, 1, 31), "repository-code": HOME}
    (tmp_path / "CITATION.cff").write_text(yaml.safe_dump(citation))
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "All")
    return tmp_path


def test_nothing_is_in_the_way_of_a_release_that_is_ready(ready: Path) -> None:
    assert [*text_problems(ready), *git_problems(ready)] == []


@pytest.mark.parametrize(
    ("file", "pattern", "text", "problem"),
    [
        ("CHANGELOG.md", r"\(2030-01-31\)", "(not published yet)", "CHANGELOG.md has no section of"),
        ("CHANGELOG.md", r"2030-01-31", "2030-02-31", "CHANGELOG.md has no section of"),
        ("CHANGELOG.md", r"# Changelog\n", "# Changelog\n\n## Unreleased\n\n- New.\n", "entries under “Unreleased”"),
        ("CITATION.cff", r"\nversion: \d\S+", "\nversion: 0.0.0", "CITATION.cff has version 0.0.0: expected"),
        ("CITATION.cff", "2030-01-31", "2030-01-30", "date-released 2030-01-30: expected 2030-01-31."),
        ("CITATION.cff", "date-released.*\n", "", "date-released missing: expected 2030-01-31."),
        (
            "CITATION.cff",
            HOME,
            "https://example.org/other",
            f"repository-code https://example.org/other: expected {HOME}",
        ),
        ("pyproject.toml", r"Repository = .*", "", "write the address of publication as Repository"),
    ],
)
def test_what_is_missing_in_a_text_is_a_sentence(file: str, pattern: str, text: str, problem: str, ready: Path) -> None:
    replace(ready / file, pattern, text)
    [found] = text_problems(ready)
    assert problem in found
    [changed] = git_problems(ready)
    assert changed.startswith(f"1 files differ from the last commit: {file}.")


def test_an_empty_section_of_what_is_unreleased_may_stay(ready: Path) -> None:
    replace(ready / "CHANGELOG.md", "# Changelog\n", "# Changelog\n\n## Unreleased\n")
    assert [*text_problems(ready)] == []


def test_the_notes_keep_their_headings_in_the_tag_that_the_command_makes(ready: Path) -> None:
    (ready / "dist").mkdir()
    (ready / "dist" / "NOTES.md").write_text(notes(ready), "utf-8")
    assert notes(ready) == f"attnviz {__version__}\n\n{CHANGES}"
    assert commands("0.1.0") in (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    tag, publish = commands(__version__).splitlines()
    made, pushed = tag.split(" && ")
    git(ready, *made.split()[1:])
    assert git(ready, "tag", "--list", "--format=%(contents)").strip() == notes(ready).strip()
    assert (pushed, publish) == (
        f"git push origin v{__version__}",
        f".venv/bin/twine upload dist/attnviz-{__version__}*",
    )
    assert any("is there already" in problem for problem in git_problems(ready))


def published(root: Path) -> str:
    """The README in the metadata that hatchling writes."""
    return ProjectMetadata(str(root), PluginManager()).core.readme


def test_links_of_the_readme_are_relative_until_there_is_an_address(ready: Path) -> None:
    replace(ready / "pyproject.toml", r"\[project.urls\]\nRepository = .*\n", "")
    assert published(ready) == (ready / "README.md").read_text("utf-8")


def test_links_of_the_readme_are_absolute_where_it_is_published(ready: Path) -> None:
    text = published(ready)
    assert text.count(f"]({HOME}/blob/v{__version__}/docs/") > 10
    assert not [problem for problem in link_problems(text, ready) if "relative" in problem]


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    assert [*link_problems(published(ROOT), ROOT)] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](docs/a.md#b)", "[a](HOME/blob/v1/docs/a.md#b)"),
        ("![a](./a.webp)", "![a](HOME/raw/v1/a.webp)"),
        ('[![a](a.svg "b")](docs/)', '[![a](HOME/raw/v1/a.svg "b")](HOME/blob/v1/docs/)'),
        ('<a href="LICENSE"><img src="a.png"></a>', '<a href="HOME/blob/v1/LICENSE"><img src="HOME/raw/v1/a.png"></a>'),
        ("[a]: docs/a.md", "[a]: HOME/blob/v1/docs/a.md"),
        *((same, same) for same in ("[a](#b)", "[a](https://a.b/c)", "<a@b.c>", "`[a](b)`", "```md\n[a](b)\n```")),
    ],
)
def test_a_relative_link_is_that_of_the_tag(text: str, expected: str) -> None:
    assert with_absolute_links(text, "HOME.git/", "1") == expected


def test_a_link_that_leads_nowhere_on_the_index_is_a_sentence(ready: Path) -> None:
    base = f"{HOME}/blob/v{__version__}"
    text = f"[a]({base}/LICENSE) [b]({base}/b.md#c) [c](c.md) [d](#d) [e](https://example.org/e)\n<!-- [f](f.md) -->\n"
    problems = [*link_problems(text, ready)]
    assert [re.sub(", which.*|: write.*", "", problem) for problem in problems] == [
        "README.md links to b.md",
        "README.md's link to c.md is relative on the index",
        "README.md links to c.md",
    ]


def test_a_check_that_fails_is_a_problem_beside_those_that_it_found() -> None:
    def check():
        yield "First."
        raise AssertionError("no network")

    assert problems_of("Installing", check()) == ["First.", "Installing: no network"]


def test_the_citation_has_the_fields_of_its_format() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation.keys() >= CITATION_REQUIRED
    assert citation.keys() <= CITATION_FIELDS
    assert (citation["cff-version"], citation["type"]) == ("1.2.0", "software")
    assert all(isinstance(citation[field], str) and citation[field] for field in ("message", "title", "version"))
    assert isinstance(citation.get("date-released", date.today()), date)
    for author in citation["authors"]:
        assert author.keys() <= {"name", "family-names", "given-names", "orcid", "affiliation", "email", "website"}
        assert author.keys() & {"name", "family-names"}
