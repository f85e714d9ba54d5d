"""Where the app's files are: beside the package in a checkout, inside of it where attnviz is installed from a wheel."""

from importlib.resources import files
from pathlib import Path

PACKAGE = Path(str(files("attnviz")))
PACKAGE_PARENT = PACKAGE.parent  # where a new Python process finds the package
FOLDER = PACKAGE / "app" if (PACKAGE / "app").is_dir() else PACKAGE_PARENT  # pyproject.toml says what is in it
APP = FOLDER / "app.py"
PAGES = FOLDER / "pages"
ASSETS = FOLDER / "assets"
