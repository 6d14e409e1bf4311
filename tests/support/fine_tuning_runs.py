"""The stages around a tiny two-branch network that is fine-tuned on coloured images."""

from commands import succeed
from dual_path_runs import FEATURES
from model_runs import ModelRuns
from tiny_inputs import (
    COLOURS,
    DUAL_PATH,
    NETWORK,
    NOUNS,
    PATHS,
    SENTENCES,
    SIDE,
    write_coloured_images,
    write_sentences,
)

from stages.extract_image_features import main as extract

PHASE = {"epochs": 2, "lr": 0.003, "batch_size": 8, "resize": SIDE, "crop": SIDE - 4}
PHASE |= {"flip": False, "workers": 0}
OWN = {key: value for key, value in DUAL_PATH.items() if not key.startswith("dual_path__")}
RUN = ModelRuns(
    "two_branch",
    {"text": SENTENCES, "network": NETWORK},
    OWN | {"sentences__encoding": "mean_vector", "training__epochs": 2, "fine_tuning": PHASE},
)
# weights are drawn: no detector is read
EXTRACT = [word if word != "detector.safetensors" else PATHS["images"] for word in FEATURES]


def prepare(folder, **changes):
    write_coloured_images(folder)
    write_own_sentences(folder)
    extracted(folder, **changes)


def write_own_sentences(folder):
    write_sentences(folder, [*COLOURS, *NOUNS], params='{"encoding": "mean_vector"}')


def extracted(folder, **changes):
    RUN.set_params(folder, **changes)
    succeed(extract, folder, *EXTRACT)
