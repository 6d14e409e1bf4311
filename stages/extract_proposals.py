"""Boxes that phrases are looked for in, and vectors of these and of the phrases' own boxes."""

from pathlib import Path

import torch

from models.phrases.proposals import (
    BoxSources,
    described,
    describer,
    detector_views,
    extract_boxes,
    proposal_datasets,
)
from pipeline.corpus.tables import SPLITS, load_images
from pipeline.features.feature_file import FeatureFile, FeatureWriter
from pipeline.phrases.absent import write_absent
from pipeline.phrases.found import search_of, upper_bound
from pipeline.phrases.proposal_files import ProposalFiles
from pipeline.phrases.tables import distinct_regions, load_phrases
from pipeline.runtime.code import code_digest
from pipeline.runtime.files import fingerprint, sha256_file
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import setup_runtime
from stages.common import WORK, command, paths
from stages.params import load_params


@command
@paths("images", "phrases", exist=True)
@paths("detector", "output", "truth")
def main(images: Path, phrases: Path, detector: Path, output: Path, truth: Path) -> None:
    """Propose boxes in every image that has phrases; a killed run continues where it stopped."""
    params = load_params(models=[])
    settings = params.phrases
    tables = load_phrases(phrases)
    table = load_images(images)
    if not len(tables):
        write_absent(output)
        return write_absent(truth)
    table = table[table["image_id"].isin(tables.phrases["image_id"])].reset_index(drop=True)
    ids = table["image_id"].tolist()
    device = setup_runtime(params.runtime)
    maker = describer(settings.features, detector, device)
    file = None
    proposer = None
    if settings.proposals.source == "file":
        file = ProposalFiles(settings.proposals, ids)
    else:
        proposer = maker if maker.proposes else detector_views(detector, device)
    sources = BoxSources(maker, proposer, file, settings.proposals.number)
    training = set(tables.of_split("train")["image_id"])
    regions = distinct_regions(tables.boxes, [name for name in ids if name in training])
    attributes = described(settings, sources, table)
    key = fingerprint(
        attributes=attributes,
        phrases=sha256_file(phrases / "phrase_boxes.parquet"),
        proposals=file.digest() if file else proposer and proposer.weights,
        source=code_digest(),
        machine=[str(device), params.runtime.threads, torch.__version__],
    )
    datasets = proposal_datasets(sources.number, maker.width)
    of_truth = {"features": ((maker.width,), "float16")}
    work = WORK / "proposals"
    pixels = int(params.corpus.max_megapixels * 1e6)
    with (
        FeatureWriter(work, key, ids, datasets, attributes) as proposed,
        FeatureWriter(work / "truth", key, regions.ids, of_truth, attributes) as true,
    ):
        extract_boxes(table, regions, sources, proposed, true, settings, device, pixels)
        true.finish(truth)
        proposed.finish(output)
    proposals = FeatureFile(output)
    hits = {split: search_of(tables, split, proposals).hits() for split in SPLITS}
    bounds = [f"{split} {upper_bound(found):.1f}" for split, found in hits.items()]
    sizes = f"{len(ids):,} images, {len(regions.ids):,} boxes of phrases"
    # in so many phrases any proposal is right: no model finds more
    say(f"proposals: {sizes}; R@{sources.number} upper bound {', '.join(bounds)}")


if __name__ == "__main__":
    main()
