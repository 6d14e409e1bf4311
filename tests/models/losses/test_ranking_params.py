"""Settings that losses declare, read from their sources."""

import pytest

from models import ranking
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.registry import ONE_CLASS, Registry

LOSS = "class {name}(RankingLoss):\n    def __init__(self, margin: float{more}) -> None: ...\n"


@pytest.fixture
def losses(tmp_path, monkeypatch):
    """An empty folder of losses in the place of models/losses."""
    (tmp_path / "shelf").mkdir()
    registry = Registry("shelf", "ranking loss", ONE_CLASS, "one class", root=tmp_path)
    monkeypatch.setattr(ranking, "LOSSES", registry)

    def write(name, more):
        text = LOSS.format(name=name.title(), more=more)
        (tmp_path / f"shelf/{name}.py").write_text(text)

    return write


def test_every_setting_of_every_loss_with_its_type_and_default(losses):
    losses("a", ", gamma: Positive = 2.0, *, kind: Literal['x', 'y'] = 'x'")
    losses("b", "")
    losses("c", ", gamma: Positive = 2.0, far: int = -1")
    found = ranking.declared()
    defaults = {name: setting.default for name, setting in found.items()}
    assert defaults == {"far": -1, "gamma": 2.0, "kind": "x"}
    assert found["gamma"].kind == ranking.TYPES["Positive"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (", gamma: Positive", "a.py, line 2: gamma: a setting needs a type and a default"),
        (", gamma: Wide = 2.0", "a.py, line 2: gamma: type Wide: allowed are int, float, bool"),
        (", gamma: float = 1 / 3", "gamma = 1 / 3: the default must be a plain value"),
    ],
)
def test_a_setting_that_says_too_little(losses, more, said):
    losses("a", more)
    with pytest.raises(WorkbenchError, match=said):
        ranking.declared()


def test_two_losses_may_share_a_setting_but_not_disagree_on_it(losses):
    losses("a", ", gamma: Positive = 2.0")
    losses("b", ", gamma: Positive = 3.0")
    said = "ranking.gamma: .*a.py declares Positive = 2.0, .*b.py Positive = 3.0"
    with pytest.raises(WorkbenchError, match=said):
        ranking.declared()
