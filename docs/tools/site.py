"""What mkdocs does not do by itself: the notebook as a page of the site."""

import base64
import html
import re

import nbformat
from mkdocs.structure.files import File, Files

NOTEBOOK, PAGE = "tour.ipynb", "tour.md"


def on_files(files: Files, config) -> Files:
    """Adds the notebook as a page, and its pictures as files."""
    source = files.get_file_from_path(NOTEBOOK)
    notebook = nbformat.reads(source.content_string, as_version=4)
    parts, pictures = [], {}
    for cell in notebook.cells:
        parts.append(cell.source if cell.cell_type == "markdown" else fenced(cell.source, "python"))
        for output in cell.get("outputs", ()):
            parts.append(shown(output, pictures))
    files.append(File.generated(config, PAGE, content="\n\n".join(parts) + "\n"))
    for name, content in pictures.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, **_) -> str:
    """In the site, links to the notebook lead to its page."""
    return markdown.replace(f"]({NOTEBOOK})", f"]({PAGE})")


def fenced(text: str, language: str = "") -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def shown(output, pictures: dict[str, bytes]) -> str:
    """An output as Markdown; its picture goes to `pictures`, by name."""
    data = output.get("data", {})
    if "image/png" in data:
        name = f"tour_{len(pictures) + 1}.png"
        pictures[name] = base64.b64decode(data["image/png"])
        return f"![output of the cell above]({name})"
    if "text/html" in data:  # a table of pandas; its style is the notebook's
        table = re.sub(r"<style.*?</style>", "", data["text/html"], flags=re.DOTALL)
        table = table.replace("<th></th>", "<td></td>")  # the corner is no title
        return re.sub(r"\n\s*", "", table)
    text = output.get("text") or data.get("text/plain", "")
    return f'<pre class="output">{html.escape(text.strip())}</pre>' if text.strip() else ""
