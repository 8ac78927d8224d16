"""Links that run a notebook elsewhere or take it home, all derived from the one repository address in _config.yml.

Every notebook page gets a row of them under its title. In prose, the roles

    {colab}`a notebook in the repository <exercises/08_attention_layer.ipynb>`
    {repository}`a file in the repository <CONTRIBUTING.md>`

link to one file; a path that does not exist is a warning, and so fails the build.
"""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import ReferenceRole

logger = logging.getLogger(__name__)


def repository_root(app: Sphinx) -> Path:
    """The folder that holds the book's folder."""
    depth = len(Path(app.config.html_theme_options.get("path_to_docs", "")).parts)
    return Path(app.srcdir, *[".."] * depth).resolve()


def repository_address(app: Sphinx, path: str) -> str:
    """Where the repository's host shows a file, or with "." the repository itself."""
    options = app.config.html_theme_options
    address = options["repository_url"].rstrip("/")
    return address if path == "." else f"{address}/blob/{options['repository_branch']}/{path}"


def colab_address(app: Sphinx, path: str) -> str:
    """Where Colab opens a notebook of the repository."""
    options = app.config.html_theme_options
    repository = options["repository_url"].rstrip("/").removeprefix("https://github.com/")
    colab = options["launch_buttons"]["colab_url"].rstrip("/")
    return f"{colab}/github/{repository}/blob/{options['repository_branch']}/{path}"


class RepositoryRole(ReferenceRole):
    """A link to one file of the repository, on its host or in Colab."""

    address = staticmethod(repository_address)

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        app = self.env.app
        if not (repository_root(app) / self.target).exists():
            logger.warning("no such file in the repository: %s", self.target, location=self.get_location())
        return [nodes.reference(self.rawtext, self.title, refuri=self.address(app, self.target))], []


class ColabRole(RepositoryRole):
    """A link that opens one notebook of the repository in Colab."""

    address = staticmethod(colab_address)


def add_launch_row(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Under a notebook's title: run it, take it home, and do its exercises."""
    source = Path(app.env.doc2path(docname))
    title = next(doctree.findall(nodes.title), None)
    if source.suffix != ".ipynb" or title is None or app.builder.format != "html":
        return
    book = app.config.html_theme_options.get("path_to_docs", "").strip("/")
    links = [
        ("Run in Colab", colab_address(app, f"{book}/{source.name}"), "colab"),
        ("Download notebook", "../" * docname.count("/") + f"_sources/{docname}.ipynb", "download"),
    ]
    exercises = f"exercises/{source.name}"
    if (repository_root(app) / exercises).exists():
        links.append(("Exercises in Colab", colab_address(app, exercises), "exercises"))
    row = nodes.paragraph(classes=["launch"])
    for text, address, kind in links:
        row += nodes.reference("", text, refuri=address, classes=[f"launch-{kind}"])
        row += nodes.Text(" ")
    title.parent.insert(title.parent.index(title) + 1, row)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_role("colab", ColabRole())
    app.add_role("repository", RepositoryRole())
    app.connect("doctree-resolved", add_launch_row)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
