"""Draw dvc.yaml as docs/graph.svg: `python docs/draw_graph.py` after a change of the graph.

A box per stage with what it writes, an arrow per file that one stage hands to another. Written by
hand rather than with graphviz because that needs a system package, and this picture only needs
columns.
"""

import sys
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
BOX, ROW, COLUMN, MARGIN = (214, 46), 62, 254, 12
STYLE = """
  .box { fill: #eef3fb; stroke: #4a6fa5; stroke-width: 1.2; }
  .name { font: 600 13px system-ui, sans-serif; fill: #16243a; }
  .file { font: 11px ui-monospace, monospace; fill: #4b5b73; }
  .edge { fill: none; stroke: #8195b3; stroke-width: 1.2; }
  @media (prefers-color-scheme: dark) {
    .box { fill: #1d2a3f; stroke: #7ea2d8; } .name { fill: #e8eefa; } .file { fill: #a9b8d0; }
  }
"""


def stages(graph: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Stage name -> (deps, outputs), the items of a foreach stage each on their own."""
    found = {}
    for name, stage in YAML(typ="safe", pure=True).load(graph.read_text())["stages"].items():
        for key, item in stage.get("foreach", {"": {}}).items():
            values = {"key": key} | {f"item.{slot}": value for slot, value in item.items()}
            body = stage.get("do", stage)
            files = {
                kind: [_path(entry, values) for entry in body.get(kind, [])]
                for kind in ("deps", "metrics", "outs", "plots")
            }
            title = f"{name}@{key}" if key else name
            found[title] = (files["deps"], files["metrics"] + files["outs"] + files["plots"])
    return found


def draw(found: dict[str, tuple[list[str], list[str]]]) -> str:
    """The picture as SVG text."""
    every = [
        (maker, user)
        for user, (deps, _) in found.items()
        for maker, (_, outputs) in found.items()
        if maker != "check_params"
        and any(dep == out or dep.startswith(f"{out}/") for dep in deps for out in outputs)
    ]
    edges = [edge for edge in every if not _implied(*edge, every)]
    place = _places(list(found), edges)
    width = max(x for x, _ in place.values()) + BOX[0] + MARGIN
    height = max(y for _, y in place.values()) + BOX[1] + MARGIN
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
             f'width="{width}" height="{height}" role="img" aria-label="The DVC graph">',
             f"<style>{STYLE}</style>",
             '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
             'markerHeight="7" orient="auto">'
             '<path d="M0 0L8 4L0 8z" fill="#8195b3"/></marker></defs>'
             ]  # fmt: skip
    lines += [_edge([place[stop] for stop in _stops(*edge, place)]) for edge in edges]
    lines += [_box(name, outputs, *place[name]) for name, (_, outputs) in found.items()]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _places(names: list[str], edges: list[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """Upper left corner of every box, and of the free places that long arrows pass through.

    A stage stands as far right as its users allow, in the row nearest to theirs.
    """
    late = dict.fromkeys(names, 0)  # columns from the right
    for _ in names:
        for maker, user in edges:
            late[maker] = max(late[maker], late[user] + 1)
    late["check_params"] = max(late.values())
    users: dict[str, list[str]] = {name: [] for name in names}
    for maker, user in edges:
        stops = [user, *(f"{maker}>{user}>{c}" for c in range(late[user] + 1, late[maker])), maker]
        for after, before in pairwise(stops):
            users.setdefault(before, []).append(after)
            late.setdefault(before, late[after] + 1)
    row: dict[str, int] = {}
    for column in range(max(late.values()) + 1):
        here = [name for name in late if late[name] == column]
        wish = {
            name: sum(row[user] for user in users[name]) / len(users[name]) if users[name] else 0
            for name in here
        }
        for number, name in enumerate(sorted(here, key=wish.__getitem__)):
            row[name] = number
    last = max(late.values())
    return {
        name: (MARGIN + (last - late[name]) * COLUMN, MARGIN + row[name] * ROW) for name in late
    }


def _stops(maker: str, user: str, place: dict[str, tuple[int, int]]) -> list[str]:
    """An arrow's way: its maker, the free places it passes through, its user."""
    between = [name for name in place if name.startswith(f"{maker}>{user}>")]
    return [maker, *sorted(between, key=lambda name: place[name][0]), user]


def _box(name: str, outputs: list[str], x: int, y: int) -> str:
    written = outputs[0].removeprefix("data/").removeprefix("checkpoints/") if outputs else ""
    return (
        f'<rect class="box" x="{x}" y="{y}" width="{BOX[0]}" height="{BOX[1]}" rx="6"/>'
        f'<text class="name" x="{x + 10}" y="{y + 19}">{escape(name)}</text>'
        f'<text class="file" x="{x + 10}" y="{y + 36}">{escape(written)}</text>'
    )


def _edge(stops: list[tuple[int, int]]) -> str:
    x, y = stops[0][0] + BOX[0], stops[0][1] + BOX[1] // 2
    path = f"M{x} {y}"
    for number, (left, top) in enumerate(stops[1:], start=1):
        bend, middle = (x + left) // 2, top + BOX[1] // 2
        path += f"C{bend} {y} {bend} {middle} {left} {middle}"
        x, y = left, middle
        if number < len(stops) - 1:
            x += BOX[0]
            path += f"H{x}"
    return f'<path class="edge" d="{path}" marker-end="url(#tip)"/>'


def _implied(maker: str, user: str, edges: list[tuple[str, str]]) -> bool:
    """Whether another path leads from maker to user: such an arrow would only cross others."""
    queue = [after for before, after in edges if before == maker and after != user]
    seen = set(queue)
    while queue:
        node = queue.pop()
        for before, after in edges:
            if before == node and after not in seen:
                seen.add(after)
                queue.append(after)
    return user in seen


def _path(entry: Any, values: dict[str, str]) -> str:
    text = entry if isinstance(entry, str) else next(iter(entry))
    for name, value in values.items():
        text = text.replace(f"${{{name}}}", value)
    return text


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/graph.svg"
    target.write_text(draw(stages(ROOT / "dvc.yaml")), encoding="utf-8")
