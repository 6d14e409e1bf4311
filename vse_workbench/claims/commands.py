"""The commands that run what a claim lacks."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.yaml_text import COMPLETE
from vse_workbench.claims.ledger import (
    Claim,
    Ledger,
    claim_datasets,
    evaluation,
    leaves,
    resolved,
    setting_digest,
    setting_params,
)
from vse_workbench.claims.results import Row

_PLAIN = re.compile(r"[\w./+-]+")


def commands(
    ledger: Ledger,
    claims: Mapping[str, Claim],
    rows: Iterable[Row],
    seeds: Sequence[int],
    current: Mapping[str, Any],
    defaults: Mapping[str, Any],
    recipes: Path,
) -> list[str]:
    """A line for the shell for each params.yaml with seeds that no kept row has, one for settings
    that differ in their criterion alone. It sets only what differs from `current`."""
    done = {(row.setting, row.dataset, row.seed, row.digest) for row in rows}
    lacking = dict[tuple[str, ...], set[int]]()
    for name, dataset in wanted(ledger, claims):
        digest = setting_digest(ledger, name, dataset)
        missing = {seed for seed in seeds if (name, dataset, seed, digest) not in done}
        if not missing:
            continue
        params = setting_params(ledger, name, dataset, defaults, recipes)
        target = evaluation(str(resolved(ledger, name).model))
        run = (target, *_differences(params, current))
        lacking.setdefault(run, set()).update(missing)
    lines = []
    for (target, *settings), missing in lacking.items():
        settings.append(f"seed={','.join(map(str, sorted(missing)))}")
        options = [word for setting in settings for word in ("-S", setting)]
        lines.append(shlex.join(["dvc", "exp", "run", "--queue", target, *options]))
    return lines


def wanted(ledger: Ledger, claims: Mapping[str, Claim]) -> list[tuple[str, str]]:
    """Settings and datasets that claims compare, each once."""
    pairs = {
        (side, dataset): None
        for claim in claims.values()
        for dataset in claim_datasets(ledger, claim)
        for side in (claim.first, claim.second)
    }
    return list(pairs)


def _differences(params: Mapping[str, Any], current: Mapping[str, Any]) -> Iterator[str]:
    """`key=value` as DVC takes it for every value that params.yaml has otherwise."""
    there = dict(leaves(current))
    values = {key: value for key, value in leaves(params) if not key.startswith("runtime.")}
    if unknown := [key for key in values if key not in there]:
        raise WorkbenchError(f"params.yaml has no {listing(unknown)}", COMPLETE)
    for key, value in values.items():
        if key != "seed" and there[key] != value:
            yield f"{key}={_written(value)}"


def _written(value: Any) -> str:
    """A value in the grammar of `-S`, which is Hydra's."""
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        return json.dumps(value, ensure_ascii=False)
    return value if isinstance(value, str) else json.dumps(value)
