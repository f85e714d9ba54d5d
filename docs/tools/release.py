"""Builds and checks a release, writes the notes of its tag, and stops before anything is uploaded.

`make release` runs it. It does all its checks, lists what is in the way, and exits with 1 if anything is; else it
prints the two commands that publish. uv's variables hold: `UV_TORCH_BACKEND=cpu` spares gigabytes of CUDA.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from datetime import date
from email import message_from_string
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import Path as ZipPath

import yaml
from markdown_it import MarkdownIt
from readme_renderer.clean import clean

from tests.support.installation import LIBRARY, ROOT, USES, build, environment, executed, rebuild, run, serving, wheel


def current_version(root: Path) -> str:
    """Returns the version in attnviz/__init__.py."""
    return re.findall(r'(?m)^__version__ = "(.+)"$', (root / "attnviz" / "__init__.py").read_text("utf-8"))[0]


def sections(root: Path) -> dict[str, str]:
    """Returns the sections of CHANGELOG.md: their headings and texts."""
    parts = re.split(r"(?m)^## (.+)$", (root / "CHANGELOG.md").read_text("utf-8"))
    return {heading: text.strip() for heading, text in zip(parts[1::2], parts[2::2], strict=True)}


def notes(root: Path) -> str:
    """Returns the text of the tag: a title, and what CHANGELOG.md says of the version."""
    version = current_version(root)
    texts = [text for heading, text in sections(root).items() if heading.split()[0] == version]
    return f"attnviz {version}\n\n{''.join(texts)}\n"


def text_problems(root: Path) -> Iterator[str]:
    """Gives what is missing in CHANGELOG.md, CITATION.cff and pyproject.toml, a sentence each."""
    version = current_version(root)
    day = _day(root, version)
    if day is None:
        yield f"CHANGELOG.md has no section of {version} with a date: write “## {version} ({date.today()})”."
    if any(text for heading, text in sections(root).items() if heading.lower().startswith("unreleased")):
        yield f"CHANGELOG.md has entries under “Unreleased”: move them to {version}, or release them first."
    citation = yaml.safe_load((root / "CITATION.cff").read_text("utf-8"))
    repository = _repository(root)
    for field, expected in (("version", version), ("date-released", day), ("repository-code", repository)):
        if expected and str(citation.get(field)) != str(expected):
            yield f"CITATION.cff has {field} {citation.get(field, 'missing')}: expected {expected}."
    if not repository:
        yield (
            "Relative links of README.md lead nowhere on the index: write the address of publication as Repository in "
            "[project.urls] of pyproject.toml, and the build makes them absolute."
        )


def _day(root: Path, version: str) -> date | None:
    headings = "\n".join(sections(root))
    found = re.search(rf"(?m)^{re.escape(version)} \((\d{{4}}-\d\d-\d\d)\)$", headings)
    try:
        return date.fromisoformat(found[1]) if found else None
    except ValueError:
        return None


def _repository(root: Path) -> str:
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    return project.get("urls", {}).get("Repository", "").rstrip("/").removesuffix(".git")


def git_problems(root: Path) -> Iterator[str]:
    """Gives what is in the way of a tag: changes that are not committed, a tag that is there."""
    if changed := _git(root, "status", "--porcelain").splitlines():
        files = ", ".join(line[3:] for line in changed[:5]) + (", …" if len(changed) > 5 else "")
        yield f"{len(changed)} files differ from the last commit: {files}. Commit or remove them."
    tag = f"v{current_version(root)}"
    if _git(root, "tag", "--list", tag):
        yield f"The tag {tag} is there already: raise __version__ in attnviz/__init__.py."


def _git(root: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout  # noqa: S603


def link_problems(readme: str, root: Path) -> Iterator[str]:
    """Gives the links of a README, as the index renders it, that lead nowhere."""
    repository = _repository(root)
    html = clean(MarkdownIt("commonmark", {"html": True}).enable("table").render(readme)) or ""
    base = re.escape(f"{repository}/") + rf"(?:blob|raw)/v{re.escape(current_version(root))}/"
    for target in re.findall(r'(?:href|src)="([^"]+)"', html):
        own = re.match(base, target) if repository else None
        if re.match(r"#|mailto:", target) or (re.match("https?:", target) and not own):
            continue
        path = (target[own.end() :] if own else target).split("#")[0]
        if repository and not own:
            yield f"README.md's link to {path} is relative on the index: write it as a Markdown link or as href or src."
        if not _git(root, "ls-files", "--", path):
            yield f"README.md links to {path}, which is not in the repository."


def distribution_problems(dist: Path, root: Path) -> Iterator[str]:
    """Gives what is wrong with a wheel and a source distribution: metadata, README, or that they differ."""
    run("twine", "check", "--strict", *dist.iterdir(), cwd=dist)
    with TemporaryDirectory() as folder:
        if rebuild(dist, Path(folder)).read_bytes() != wheel(dist).read_bytes():
            yield "The source distribution builds another wheel: see what it includes in pyproject.toml."
    metadata = ZipPath(wheel(dist)) / f"attnviz-{current_version(root)}.dist-info" / "METADATA"
    yield from link_problems(message_from_string(metadata.read_text("utf-8")).get_payload(), root)


def installation_problems(file: Path) -> Iterator[str]:
    """Gives what is wrong with a wheel that is installed from the index: a picture is made there, the app opened."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        programs = folder / "environment" / "bin"
        run("uv", "venv", "--quiet", programs.parent, cwd=ROOT)
        run("uv", "pip", "install", "--quiet", "--python", programs / "python", f"{file}[all]", cwd=ROOT)
        command = [programs / "attnviz", "--version"]
        said = subprocess.run(command, capture_output=True, text=True, env=environment(folder)).stdout  # noqa: S603
        if said != f"attnviz {current_version(ROOT)}\n":
            yield f"The installed command says {said!r} for its version: expected {current_version(ROOT)}."
        imported = executed(programs, LIBRARY + "".join(USES.values()), folder)
        if strays := [path for path in imported if path.is_relative_to(ROOT)]:
            yield f"The installed wheel imports {strays[0]}, a file of the checkout."
        if (folder / "picture.html").stat().st_size < 1_000_000:
            yield "The picture of the installed wheel is smaller than plotly.js: look at attnviz.show(…).to_html."
        with serving(programs, folder, folder / "log"):
            pass


def commands(version: str) -> str:
    """Returns the two commands that publish. Git would take headings of the notes for comments."""
    tag = f"v{version}"
    return (
        f"git tag -a {tag} --cleanup=whitespace -F dist/NOTES.md && git push origin {tag}\n"
        f".venv/bin/twine upload dist/attnviz-{version}*"
    )


def problems_of(step: str, check: Iterator[str]) -> list[str]:
    """Returns what a check gives, or that it failed: each as a sentence."""
    print(f"{step} …", flush=True)
    found = []
    try:
        found += check
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        found.append(f"{step}: {error}")
    return found


def build_problems(dist: Path, root: Path) -> Iterator[str]:
    """Builds the wheel and the source distribution in a folder; gives what is wrong with them."""
    build(dist)
    yield from distribution_problems(dist, root)


def main() -> None:
    """Does every check, also after others have failed; writes dist/; exits with 1 if something is in the way."""
    version, dist = current_version(ROOT), ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    problems = problems_of("Reading texts and the repository", chain(text_problems(ROOT), git_problems(ROOT)))
    problems += problems_of("Building the wheel and the source distribution", build_problems(dist, ROOT))
    if any(dist.glob("*.whl")):
        problems += problems_of("Installing the wheel from the index", installation_problems(wheel(dist)))
    (dist / "NOTES.md").write_text(notes(ROOT), "utf-8")
    for file in sorted(dist.iterdir()):
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")
    if problems:
        sys.exit("\n".join([f"attnviz {version} cannot be published yet:", *(f"- {problem}" for problem in problems)]))
    print(f"attnviz {version} is ready, and nothing is uploaded. These publish it:\n{commands(version)}")


if __name__ == "__main__":
    main()
