"""Where a free phrase is in an image: the boxes that a trained model likes best."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from models.base.texts import sentence_vector
from models.phrases.data import PhraseInputs, open_phrases
from models.phrases.extraction import Sources
from models.phrases.models import PHRASE_MODELS
from models.phrases.regions import as_tensors, describer, detector_views
from pipeline.phrases.params import PhrasesConfig
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError
from pipeline.sentences.encoder import encoder_of
from pipeline.storage.checkpoint import read_checkpoint
from pipeline.storage.layout import checked


class Localised(NamedTuple):
    boxes: np.ndarray  # (K, 4) x1, y1, x2, y2 in pixels, best first
    scores: np.ndarray  # (K,) their cosines with the phrase
    proposals: int  # how many were compared


@torch.inference_mode()
def localise(
    name: str,
    words: Sequence[str],
    image: Image.Image,
    top: int,
    files: dict[str, Path],
    settings: PhrasesConfig,
    wordnet: Path | None,
    device: torch.device,
) -> Localised:
    """Find the `top` boxes among the detector's proposals of an RGB image that fit a phrase best.
    files: phrases, proposals, truth, vectors, checkpoint, detector and encoder; wordnet: folder,
    None to look for it."""
    inputs = {key: files[key] for key in ("phrases", "proposals", "truth", "vectors")}
    opened = open_phrases(PhraseInputs(**inputs))
    trained = read_checkpoint(files["checkpoint"], name)
    trained.require(opened.identity)
    network = trained.build(PHRASE_MODELS.imported(name).NETWORK).to(device)
    encoder = encoder_of(opened.vectors, files["encoder"], wordnet)
    (vector,) = sentence_vector(words, opened.vectors, encoder)
    maker = describer(settings.features, files["detector"], device)
    if maker.weights != opened.proposals.attributes.get("weights_sha256"):
        raise WorkbenchError(
            f"{files['proposals']}: not described by the network of {files['detector']}",
            OUT_OF_STEP,
        )
    proposer = maker if maker.proposes else detector_views(files["detector"], device)
    sources = Sources(maker, proposer, None, settings.proposals.number)
    _, proposed = sources.look(as_tensors([np.array(image)], device), [name])
    if not len(proposed[0].boxes) or proposed[0].features is None:
        raise WorkbenchError("the detector proposes no box in this image")
    features = proposed[0].features.float().cpu().numpy()
    # rounded as the vectors of the corpus were
    features = checked(
        "the image", features, opened.proposals.dtype(), ["the image"] * len(features)
    )
    regions = torch.from_numpy(features).float().to(device)
    phrase = network.embed_captions(vector.to(device))[0]
    scores = (network.embed_images(regions) @ phrase).cpu().numpy()
    best = np.argsort(-scores, kind="stable")[:top]
    return Localised(proposed[0].boxes.cpu().numpy()[best], scores[best], len(scores))
