"""The state of an interrupted training: damage, and another training."""

import numpy as np
import pytest
import torch

from pipeline.training.resume import ResumeFile

STATE = {"weights": {"a": torch.arange(5.0)}, "epoch": 3, "history": [{"loss": 0.5, "name": "x"}]}


@pytest.fixture
def resume(tmp_path):
    return ResumeFile(tmp_path / "train-toy", "fingerprint")


def test_any_flipped_bit_or_cut_discards_it(resume, capsys):
    resume.save(STATE)
    whole = resume.path.read_bytes()
    generator = np.random.default_rng(0)
    damaged = [whole[:cut] for cut in (0, 10, 32, len(whole) // 2, len(whole) - 1)]
    for position in generator.integers(0, len(whole), 40):
        flipped = bytearray(whole)
        flipped[position] ^= 1 << int(generator.integers(8))
        damaged.append(bytes(flipped))
    for content in damaged:
        resume.path.write_bytes(content)
        assert resume.load() is None
        assert not resume.path.exists()
        assert "damaged: discarded" in capsys.readouterr().err


def test_state_of_another_training_is_not_used(resume, capsys):
    resume.save(STATE)
    assert ResumeFile(resume.path.parent, "other").load() is None
    assert "belongs to another training" in capsys.readouterr().err
