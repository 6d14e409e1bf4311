"""What the documents say about the project is held against the project."""

import ast
import io
import json
import os
import re
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import networkx
import pytest
from clone import ROOT

from pipeline.runtime.yaml_text import read_yaml
from vse_workbench.commands import files

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGES = ("pipeline", "models", "stages", "vse_workbench", "benchmarks")
SOURCES = [path for name in (*PACKAGES, "tests") for path in sorted((ROOT / name).rglob("*.py"))]
PAPERS = ("vse", "two_branch", "dual_path", "scan", "dp_rnn", "vse_infinity")
MADE = ("report/compare.md",)  # documents that a run makes
MODULE = re.compile(
    r"(?<![\w./-])((?:pipeline|models|stages|vse_workbench|benchmarks)(?!\.md\b(?!\.\w))(?:\.\w+)+)"
)
DOCUMENT = re.compile(r"(?<![\w./*{}-])((?:[\w-]+/)*[A-Za-z_][\w-]*\.md)\b")


def arrows_of(picture):
    """The names of the boxes at both ends of every arrow of an SVG."""
    tree, svg = ElementTree.parse(picture), "{http://www.w3.org/2000/svg}"
    boxes = {
        box.get("id"): [float(box.get(key)) for key in ("x", "y", "width", "height")]
        for box in tree.iterfind(f".//{svg}g[@class='stage']/{svg}rect")
    }
    assert [text.text for text in tree.iter(f"{svg}text")] == list(boxes)

    def at(x, y):
        return next(
            name
            for name, (left, top, width, height) in boxes.items()
            if left - 2 <= x <= left + width + 2 and top - 2 <= y <= top + height + 2
        )

    for path in tree.iterfind(f".//{svg}g[@class='line']/{svg}path"):
        numbers = [float(number) for number in re.findall(r"\d+", path.get("d"))]
        yield at(*numbers[:2]), at(*numbers[-2:])


def test_the_drawn_graph_is_the_graph():
    """The picture in docs/layout.md has the arrows of dvc.yaml that do not follow from others."""
    command = [Path(sys.executable).with_name("dvc"), "dag", "--mermaid", "evaluate@vse"]
    drawn = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = dict(re.findall(r'(node\d+)\["(.+)"\]', drawn))
    edges = re.findall(r"(node\d+)-->(node\d+)", drawn)
    graph = networkx.DiGraph((names[one], names[other]) for one, other in edges)
    arrows = networkx.transitive_reduction(graph).edges
    assert set(arrows_of(ROOT / "docs/graph.svg")) == set(arrows)


def anchors(document):
    """The anchors of a document's headings, as GitHub and mkdocs make them."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), flags=re.MULTILINE)
    return [re.sub(r"[^\w\s-]", "", text).strip().lower().replace(" ", "-") for text in headings]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_commands_lead_somewhere(document):
    # Files that a reader is to write (tests/test_extending.py does) are not there yet.
    text = re.sub(r"^File `[^`]+`:$", "", document.read_text(), flags=re.MULTILINE)
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        if link.startswith("../../actions/"):
            continue  # a page of GitHub, from the address of README there
        assert (document.parent / link).exists(), f"{document.name} links to {link}"
    for link, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text):
        target = document.parent / link if link else document
        assert anchor in anchors(target), f"{document.name} links to {link}#{anchor}"
    # Commands stand in code: in fences or between backticks; capitals are placeholders.
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, flags=re.DOTALL))
    for module in re.findall(r"python -m (stages\.[a-z_]+)", code):
        file = ROOT / Path(*module.split(".")).with_suffix(".py")
        assert file.is_file(), f"{document.name} runs {module}"
    for words in re.findall(r"(?:^|`|\| )vse ([a-z][a-z-]*(?: [a-z-]+)?)", code, re.MULTILINE):
        known = {words, words.split()[0]} & set(files())
        assert known, f"{document.name} runs vse {words}"
    for path in re.findall(
        r"`((?:pipeline|stages|models|vse_workbench|tests|recipes|docs)/[\w/]+\.\w+)`", code
    ):
        assert (ROOT / path).exists(), f"{document.name} names {path}"
    goals = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for goal in re.findall(r"[`\n]make ([a-z]+)", code):
        assert goal in goals, f"{document.name} says make {goal}"


def test_the_makefile_names_tests_that_exist():
    named = re.findall(r"tests/[\w/.]+", (ROOT / "Makefile").read_text())
    assert len(named) > 10
    for path in named:
        assert (ROOT / path).exists(), f"Makefile names {path}"


def prose(path):
    """Comments and docstrings of a module, the whole of a document."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    lines = [token.string for token in tokens if token.type == tokenize.COMMENT]
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds))
    return "\n".join([*lines, *filter(None, map(ast.get_docstring, nodes))])


def dead(pointer):
    """Whether a dotted name leads to no module, or to a module that does not have the name."""
    parts = pointer.split(".")
    for depth in range(len(parts), 0, -1):
        base = ROOT.joinpath(*parts[:depth])
        files = base.with_suffix(".py"), base / "__init__.py"
        found = next((file for file in files if file.is_file()), None)
        if found:
            names = parts[depth : depth + 1]
            return any(not re.search(rf"\b{name}\b", found.read_text()) for name in names)
    return True


def dead_pointers(text, beside):
    """Documents and modules that a text names and that there are not.

    beside: the folder of its file, which names documents from there or from the root.
    """
    for name in sorted(set(DOCUMENT.findall(text)) - set(MADE)):
        if not any((folder / name).is_file() for folder in (ROOT, ROOT / "docs", beside)):
            yield name
    placeholders = ("stages.NAME",)
    yield from (
        name
        for name in sorted(set(MODULE.findall(text)))
        if dead(name) and name not in placeholders
    )


@pytest.mark.parametrize(
    "path",
    [*SOURCES, *(path for path in DOCUMENTS if path.name != "extending.md")],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_no_comment_or_document_points_nowhere(path):
    """extending.md names what its reader is to write, and tests/test_extending.py writes it."""
    assert list(dead_pointers(prose(path), path.parent)) == []


@pytest.mark.parametrize("page", ["coming.md", *(f"papers/{name}.md" for name in PAPERS)])
def test_pages_from_elsewhere_name_keys_and_recipes_that_there_are(page):
    text = (ROOT / "docs" / page).read_text()
    values = read_yaml(ROOT / "params.yaml")
    for key in re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)`", text):
        section, *names = key.split(".")
        if section not in values:
            continue  # a file or a metric
        node = values[section]
        for name in names:
            assert name in node, f"{page}: params.yaml has no {key}"
            node = node[name]
    recipes = {path.stem for path in (ROOT / "recipes").glob("*.yaml")}
    for name in re.findall(r"`([a-z_]+_20\d\d_\w+)`", text):
        assert name in recipes, f"{page}: no recipe {name}"


def test_the_readme_has_the_figures_of_the_metrics():
    """Its rows, the best first. Intervals are in no file that git has: they only have to fit."""
    text = (ROOT / "README.md").read_text()
    table = text.partition("<!-- results -->")[2].partition("<!-- /results -->")[0].strip()
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:-1]]
    wanted = []
    for path in (ROOT / "metrics").glob("[!p]*.json"):  # no phrases
        metrics = json.loads(path.read_text())
        naive, other = metrics["naive"], metrics.get("inverted_softmax")
        figures = [naive["rsum"], naive["i2t"]["r1"], naive["t2i"]["r1"]]
        cells = [f"{figure:.1f}" for figure in figures]
        wanted.append([f"`{path.stem}`", *cells, f"{other['rsum']:.1f}" if other else ""])
    wanted.sort(key=lambda row: -float(row[1]))
    assert [[row[0].removesuffix(" ="), row[1], *row[3:]] for row in rows] == wanted, (
        "run: python docs/tools/from_run.py"
    )
    for _, rsum, interval, *_ in rows:
        low, high = map(float, interval.split(" to "))
        assert low < float(rsum) < high


def test_badges_say_what_the_project_says():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tested = read_yaml(ROOT / ".github/workflows/ci.yml")["jobs"]["test"]["strategy"]["matrix"]
    wanted = {"licence": project["license"], "python": " | ".join(tested["python"])}
    for name, said in wanted.items():
        title = ElementTree.parse(ROOT / f"docs/badges/{name}.svg").find("{*}title")
        assert title.text == f"{name}: {said}"
        assert f"[{title.text}](docs/badges/{name}.svg)" in (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_the_site_has_every_document_and_the_notebook(site):
    pages = {str(path.relative_to(site)) for path in site.rglob("*.html")}
    own = {str(path.relative_to(ROOT / "docs").with_suffix(".html")) for path in DOCUMENTS[2:]}
    assert own | {"tour.html"} <= pages
    assert "Vectors of N image files" in (site / "api.html").read_text()
    tour, notebook = (site / "tour.html").read_text(), (ROOT / "docs/tour.ipynb").read_text()
    shown = set(re.findall(r'src="(tour_\d+\.png)"', tour))
    assert len(shown) == notebook.count('"image/png"') > 3
    assert all((site / name).is_file() for name in shown)
    assert 'href="tour.html"' in (site / "index.html").read_text()
    for page in site.rglob("*.html"):  # nothing is loaded from the network
        assert not re.search(r'<(?:script|link|img)[^>]+(?:src|href)="?https?:', page.read_text())
        assert "<p>|" not in page.read_text(), f"{page.name}: rows of a table without its head"


def test_the_search_of_the_site_works_from_disk(site, browser):
    """Browsers start no worker on file:// pages: docs/tools/iframe-worker.js stands in."""
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get((site / "index.html").as_uri())
    dialog = browser.find_element("css selector", ".md-search")
    assert dialog.get_attribute("aria-label") == "Search the site"  # the theme gives it none
    field = browser.find_element("css selector", "input.md-search__input")
    browser.execute_script("arguments[0].focus()", field)
    field.send_keys("querybank")
    found = ".md-search-result__item a[href*='metrics.html']"
    WebDriverWait(browser, 20).until(lambda _: browser.find_elements("css selector", found))
