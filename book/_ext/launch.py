"""Links that run a notebook elsewhere or take it home, all derived from the one repository address in _config.yml.

Every notebook page gets a row of them under its title. They lead to the chapter's plain twin, as do the theme's own
buttons, and the site brings the twins along. In prose, the roles

    {colab}`a notebook in the repository <exercises/08_attention_layer.ipynb>`
    {repository}`a file in the repository <CONTRIBUTING.md>`

link to one file; a path that does not exist is a warning, and so fails the build.
"""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import ReferenceRole

from lecturelib.book.addresses import colab_url, file_url

logger = logging.getLogger(__name__)


def repository_root(app: Sphinx) -> Path:
    """The folder that holds the book's folder."""
    depth = len(Path(app.config.html_theme_options.get("path_to_docs", "")).parts)
    return Path(app.srcdir, *[".."] * depth).resolve()


def repository_address(app: Sphinx, path: str) -> str:
    """Where the repository's host shows a file, or with "." the repository itself."""
    options = app.config.html_theme_options
    return file_url(options["repository_url"].rstrip("/"), options["repository_branch"], path)


def colab_address(app: Sphinx, path: str) -> str:
    """Where Colab opens a notebook of the repository."""
    options = app.config.html_theme_options
    colab, repository = options["launch_buttons"]["colab_url"], options["repository_url"].rstrip("/")
    return colab_url(colab, repository, options["repository_branch"], path)


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
        ("Run in Colab", colab_address(app, f"{book}/plain/{source.name}"), "colab"),
        ("Download notebook", "../" * docname.count("/") + f"plain/{source.name}", "download"),
    ]
    exercises = f"exercises/{source.name}"
    if (repository_root(app) / exercises).exists():
        links.append(("Exercises in Colab", colab_address(app, exercises), "exercises"))
    row = nodes.paragraph(classes=["launch"])
    for text, address, kind in links:
        row += nodes.reference("", text, refuri=address, classes=[f"launch-{kind}"])
        row += nodes.Text(" ")
    title.parent.insert(title.parent.index(title) + 1, row)


def aim_buttons(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Let the theme's buttons at the top of a chapter open and take home its twin too, and need one icon font."""
    book = app.config.html_theme_options.get("path_to_docs", "").strip("/")

    def aim(buttons: list[dict[str, Any]]) -> None:
        for button in buttons:
            aim(button.get("buttons", []))
            button["icon"] = button.get("icon", "").replace("fab fa-github", "fas fa-code-branch")
            for old in (f"{book}/{pagename}.ipynb", f"_sources/{pagename}.ipynb"):
                if str(button.get("url", "")).endswith(old):
                    new = old.replace("_sources/", "plain/").replace(f"{book}/", f"{book}/plain/")
                    button["url"] = button["url"].removesuffix(old) + new

    aim(context.get("header_buttons", []))


def plain_writer() -> ModuleType:
    """book/plain.py."""
    path = Path(__file__).resolve().parent.parent / "plain.py"
    spec = importlib.util.spec_from_file_location("plain", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def add_twins(app: Sphinx, error: Exception | None) -> None:
    """Put the twins of all chapters beside the pages; what has no plain form is a warning."""
    if error is not None or app.builder.format != "html":
        return
    plain = plain_writer()
    book = plain.Book(repository_root(app))
    folder = Path(app.outdir) / "plain"
    folder.mkdir(exist_ok=True)
    for docname in app.env.found_docs:
        page = Path(app.env.doc2path(docname))
        if page in book.chapters:
            try:
                (folder / page.name).write_text(plain.twin_text(book, page), encoding="utf-8")
            except plain.PlainError as problem:
                logger.warning("%s", problem, location=docname)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register with Sphinx."""
    app.add_role("colab", ColabRole())
    app.add_role("repository", RepositoryRole())
    app.connect("doctree-resolved", add_launch_row)
    app.connect("html-page-context", aim_buttons, priority=600)  # after the theme has made them
    app.connect("build-finished", add_twins)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
