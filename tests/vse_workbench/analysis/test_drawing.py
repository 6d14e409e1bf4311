"""Pictures whose bytes do not hang on where the process keeps its objects."""

import pytest

from vse_workbench.analysis.drawing import picture


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_axes_stand_at_places_of_few_digits(tmp_path, kind):
    with picture(tmp_path / f"drawn.{kind}", 5, 3) as drawn:
        for axes in drawn.subplots(2, 1, height_ratios=[1, 3]):
            axes.plot([0, 1], [0, 3])
            axes.set_ylabel("some words")
    corners = [side for axes in drawn.axes for side in axes.get_position().min]
    assert corners == [round(side, 6) for side in corners]
    assert len({*corners}) == 3  # laid out below each other
    written = (tmp_path / f"drawn.{kind}").read_bytes()
    with picture(tmp_path / f"again.{kind}", 5, 3) as drawn:
        for axes in drawn.subplots(2, 1, height_ratios=[1, 3]):
            axes.plot([0, 1], [0, 3])
            axes.set_ylabel("some words")
    assert (tmp_path / f"again.{kind}").read_bytes() == written
