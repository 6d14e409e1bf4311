"""Where a phrase that is in no file is in an image: the boxes that a trained model likes best."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from models.phrases import load_phrase_model
from models.phrases.data import PhraseData, PhraseFiles
from models.phrases.proposals import BoxSources, as_tensors, describer, detector_views
from pipeline.features.checkpoint import read_checkpoint
from pipeline.features.data import encode_query
from pipeline.features.layout import cast_finite
from pipeline.features.split import to_device
from pipeline.phrases.params import PhrasesConfig
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError
from pipeline.runtime.process import say


class Localised(NamedTuple):
    """Where a phrase is in an image.

    Args:
        boxes: (K, 4) x1, y1, x2, y2 in pixels, best first.
        scores: (K,) their cosines with the phrase.
        proposals: How many boxes were compared.
    """

    boxes: np.ndarray
    scores: np.ndarray
    proposals: int


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
    """Find the proposed boxes of an image that fit a phrase best.

    Args:
        name: Of the model.
        words: Of the phrase, in lower case.
        image: RGB.
        top: Boxes that are wanted.
        files: phrases, proposals, truth, vectors, checkpoint, detector and encoder.
        settings: The section `phrases` of params.yaml.
        wordnet: Folder of WordNet's files, None to look for it.
        device: Where the networks run.

    Returns:
        The boxes with their scores.

    Raises:
        WorkbenchError: The files are not of one run, no word is known, or nothing is proposed.
    """
    inputs = {key: files[key] for key in ("phrases", "proposals", "truth", "vectors")}
    data = PhraseData(PhraseFiles(**inputs), seed=0)
    trained = read_checkpoint(files["checkpoint"], name)
    trained.require(data.identity)
    model = load_phrase_model(name).from_checkpoint(trained, name).to(device)
    from pipeline.features.sentences.encoder import (
        encoder_of,  # scikit-learn takes a second to load
    )

    data.captions.encoder = encoder_of(data.captions.file, files["encoder"], wordnet)
    caption = encode_query(data.captions, words, say)
    maker = describer(settings.features, files["detector"], device)
    if maker.weights != data.proposals.attributes.get("weights_sha256"):
        raise WorkbenchError(
            f"{files['proposals']}: not described by the network of {files['detector']}",
            OUT_OF_STEP,
        )
    proposer = maker if maker.proposes else detector_views(files["detector"], device)
    sources = BoxSources(maker, proposer, None, settings.proposals.number)
    _, (proposed,) = sources.look(as_tensors([np.array(image)], device), [name])
    if not len(proposed.boxes) or proposed.features is None:
        raise WorkbenchError("the detector proposes no box in this image")
    # rounded as the vectors of the corpus were
    names = ["the image"] * len(proposed.boxes)
    kind = data.proposals.dtype()
    features = cast_finite("the image", proposed.features.float().cpu().numpy(), kind, names)
    regions = model.embed_images(torch.from_numpy(features).float().to(device))
    scores = (
        model.score(regions, model.embed_captions(to_device(caption, device)))[:, 0].cpu().numpy()
    )
    best = np.argsort(-scores, kind="stable")[:top]
    return Localised(proposed.boxes.cpu().numpy()[best], scores[best], len(scores))
