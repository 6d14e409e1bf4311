"""Trains models alone and in two processes that share every batch, and keeps their weights.

Run by tests/models/test_several_processes.py as `python trained_together.py FOLDER`. Every folder
FOLDER/cases/<case> holds params.yaml and case.json: the model's name, the folder with its inputs,
and their names. Writes alone/<case>.pt, together/<case>.pt and what `dropped`, `gathered` and
`together` say.
"""

import json
import os
import socket
import sys
from dataclasses import fields
from pathlib import Path

import torch
from forked import Child

from models.base import train_model
from models.phrases import PHRASE_MODELS, load_phrase_model
from models.phrases.data import PhraseData, PhraseFiles
from models.registry import load_model
from pipeline.features.data import Inputs, RetrievalData
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.repeatable import seed_everything
from pipeline.training.process_group import ProcessGroup, process_group
from pipeline.training.resume import ResumeFile
from stages.params import load_params, run_of

CPU = torch.device("cpu")
PROCESSES = 2


def train_all(cases: Path, output: Path, processes: ProcessGroup) -> None:
    """Train in float64: Adam's first steps are the signs of gradients, and of those that are zero
    but for rounding float32 would decide the sign."""
    for case in sorted(cases.iterdir()):
        os.chdir(case)
        described = json.loads((case / "case.json").read_text())
        params = load_params(models=None)
        name, run = described["model"], run_of(params)
        os.chdir(described["world"])
        seed_everything(params.seed)
        inputs = {key: Path(path) for key, path in described["inputs"].items()}
        config = getattr(params, name)
        data: RetrievalData | PhraseData
        if name in PHRASE_MODELS:
            kind = load_phrase_model(name)
            files = {field.name: inputs[field.name] for field in fields(PhraseFiles)}
            data = PhraseData(PhraseFiles(**files), params.seed)
        else:
            kind = load_model(name)
            data = kind.open_data(config, Inputs(**inputs))
        model = kind(config, **data.sizes)
        model.start(data, run)
        model.double()

        def open_resume(part: str, work: Path = output / "work" / case.name) -> ResumeFile:
            return ResumeFile(work / (part or "whole"), "", interval=1e9)

        result = train_model(model, data, run, open_resume, processes, name)
        if processes.rank_id == 0:
            losses = [row["loss"] for row in result.history]
            torch.save(
                {"weights": model.state_dict(), "losses": losses}, output / f"{case.name}.pt"
            )


def together(folder: Path, own: int, port: int) -> None:
    """What torchrun says to a process, and its part of the work."""
    torch.set_num_threads(1)
    told = {"RANK": own, "LOCAL_RANK": own, "WORLD_SIZE": PROCESSES, "MASTER_PORT": port}
    os.environ |= {name: str(value) for name, value in told.items()}
    os.environ |= {"MASTER_ADDR": "localhost", "TORCHELASTIC_RUN_ID": "test"}
    with process_group(CPU) as processes:
        train_all(folder / "cases", folder / "together", processes)
        dropped(folder / "together", processes)
        gathered(folder / "together", processes)
        try:
            processes.check_equal({"inputs": "equal", "params": f"of {own}"})
        except WorkbenchError as error:
            (folder / f"together/refused{own}").write_text(str(error))


def dropped(output: Path, processes: ProcessGroup) -> None:
    """What dropout leaves of 2 x 64 ones, half of them another process's, and the next number."""
    torch.manual_seed(0)
    left = processes.shard(torch.nn.Dropout(0.5), torch.ones(2, 64))
    torch.save((left, torch.rand(())), output / f"dropped{processes.rank_id}.pt")


def gathered(output: Path, processes: ProcessGroup) -> None:
    """Integers of which float32 has no equals, and what comes of them through both processes."""
    codes = 2**31 - 1 - torch.arange(7)
    found = processes.shard(lambda rows: rows, codes)
    torch.save((codes, found), output / f"codes{processes.rank_id}.pt")


def alone(folder: Path) -> None:
    torch.set_num_threads(1)
    train_all(folder / "cases", folder / "alone", ProcessGroup())


def main() -> None:
    folder = Path(sys.argv[1])
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    both = [Child(f"process {n}", together, folder, n, port) for n in range(PROCESSES)]
    ends = [child.end() for child in (*both, Child("the process alone", alone, folder))]
    assert [code for code, _ in ends] == [0, 0, 0], ends


if __name__ == "__main__":
    main()
