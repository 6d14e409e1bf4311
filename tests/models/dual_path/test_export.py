"""An image network that the dual path has tuned gives the features of another run."""

import numpy as np
import pytest
import torch
from commands import fail, succeed
from dual_path_runs import FEATURES, RUN, stage_1, stage_2
from tiny_inputs import PATHS

from models.backbone.network import read_network
from models.dual_path.model import DualPath
from pipeline.features.feature_file import FeatureFile
from stages.extract_image_features import main as extract
from vse_workbench.commands.export_image_network import main as export

CHECKPOINT = "out/dual_path.safetensors"


def test_features_are_cut_from_the_tuned_network(folder):
    before = FeatureFile(folder / PATHS["features"]).load()
    RUN.train(folder, phases=[stage_1(1), stage_2(2, lr=0.01)])
    model = DualPath.from_checkpoint(RUN.checkpoint(folder), "dual_path")
    printed = succeed(export, folder, CHECKPOINT, "--output", "tuned.safetensors")
    assert "written: tuned.safetensors, resnet18 tuned up to layer1" in printed
    assert "not tuned but random, since they lie behind that: layer2.0.conv1.weight" in printed
    RUN.set_params(folder, image_features__weights="tuned.safetensors")
    succeed(extract, folder, *FEATURES)
    made = read_network(folder / "network.safetensors")
    own = dict(model.image_cnn.state_dict())
    for name, value in made.backbone.state_dict().items():
        assert torch.equal(own[name], value)
    assert not np.array_equal(FeatureFile(folder / PATHS["features"]).load(), before)


@pytest.mark.parametrize(
    ("file", "output", "message"),
    [
        ("network.safetensors", "a.safetensors", "network.safetensors: "),
        ("network.safetensors", "a.pth", "--output a.pth: must end in .safetensors"),
    ],
)
def test_other_files_are_refused(folder, file, output, message):
    assert message in fail(export, folder, file, "--output", output)
    assert not (folder / output).exists()
