"""A hook of mkdocs: pages of the site that are made from the code, the README and the notebook.

`mkdocs.yml` names it. Nothing that it writes is in the repository, so that none of it can be out of date.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from jobs.metrics.kinds import KIND_OF
from jobs.runtime.command_line import cli, help_text, job_names
from jobs.runtime.configuration import config, key_types
from jobs.tables import TABLES, WRITTEN_BY

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "first_study.ipynb"
# File of the repository -> page of the site.
PAGES = {"README.md": "index.md", "SECURITY.md": "security.md", "CONTRIBUTING.md": "contributing.md",
         "CHANGELOG.md": "changelog.md"}  # fmt: skip


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of docs/, and leave out the notebook."""
    files.remove(next(file for file in files if file.src_uri == NOTEBOOK.name))
    for uri, content in pages().items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to files of the repository to their pages."""
    return re.sub(r"\]\(\.\./([A-Z]+\.md)", lambda match: f"]({PAGES[match[1]]}", markdown)


def pages() -> dict[str, str]:
    """Return the content of each page by its place in the site."""
    of_repository = {page: _inside(ROOT / file) for file, page in PAGES.items()}
    return of_repository | {
        "first_study.md": of_notebook(NOTEBOOK),
        "reference/jobs.md": "\n".join(_jobs()),
        "reference/tables.md": "\n".join(_tables()),
        "reference/metrics.md": "\n".join(_metrics()),
    }


def of_notebook(path: Path) -> str:
    """Return the cells of a notebook as Markdown, without outputs."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    return "\n\n".join(text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in sources)


def _inside(path: Path) -> str:
    """Return the text of a file of the repository with links as seen from docs/."""
    text = (
        path.read_text(encoding="utf-8").replace("](docs/", "](").replace("](first_study.ipynb)", "](first_study.md)")
    )
    return re.sub(r"\]\(([A-Z]+\.md)", lambda match: f"]({PAGES[match[1]]}", text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _jobs() -> Iterator[str]:
    yield "# Jobs and their keys\n\nAs `remine JOB --help` prints them; a default of ??? is required.\n"
    yield "Every job that writes a table has these keys, and those that use Ray also `ray.*` and `resources.*`:\n"
    texts = key_types.explanations(config.Writing)
    yield "| key | |\n|---|---|"
    yield from (f"| `{name}` | {_cell(text)} |" for name, text in texts.items())
    for name in job_names.JOBS:
        schema = cli.job(name).schema
        yield f"\n## {name}\n\n{job_names.summary(name)}\n\n| key | default | |\n|---|---|---|"
        for key in help_text.keys(name, schema):
            if key.name.split(".")[0] not in {*texts, "ray", "resources"} or key.default == help_text.REQUIRED:
                options = f"; one of {', '.join(key.options)}" if key.options else ""
                yield f"| `{key.name}` | `{_cell(key.default)}` | {_cell(key.text + options)} |"


def _tables() -> Iterator[str]:
    yield "# Tables\n\nFrom `jobs/tables.py`. Columns of the primary key are in bold.\n"
    for table in TABLES.values():
        writers = ", ".join(f"`{job}`" for job in WRITTEN_BY[table.name])
        yield f"\n## {table.name}\n\nVersion {table.version}; written by {writers}.\n"
        yield "| column | type | |\n|---|---|---|"
        for name, (kind, text) in table.columns.items():
            shown = f"**{name}**" if name in table.key else name
            yield f"| {shown} | `{_cell(str(kind))}` | {_cell(text)} |"


def _metrics() -> Iterator[str]:
    yield "# Metrics by module\n\nThe functions of `jobs/metrics/`, with what their documentation begins with.\n"
    for path in sorted((ROOT / "jobs" / "metrics").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [
            (node.name, doc)
            for node in tree.body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_") and (doc := ast.get_docstring(node))
        ]
        if functions:
            yield f"\n## {path.stem}\n\n{_cell(ast.get_docstring(tree) or '')}\n\n| function | |\n|---|---|"
            yield from (f"| `{name}` | {_cell(doc.split(chr(10) * 2)[0])} |" for name, doc in functions)
    yield "\n## Names\n\nOf `jobs/metrics/kinds.py`; braces stand for what depends on the data.\n"
    yield "| metric | values | definition |\n|---|---|---|"
    yield from (f"| `{kind.name}` | {kind.unit} | {_cell(kind.definition)} |" for kind in KIND_OF.values())
