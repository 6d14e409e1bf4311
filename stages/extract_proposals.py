"""Boxes that phrases are looked for in, and vectors of these and of the phrases' own boxes."""

from functools import partial
from pathlib import Path

import torch

from models.phrases.proposals import (
    BoxSources,
    described,
    describer,
    detector_views,
    extract_boxes,
    proposal_datasets,
    row_inputs,
)
from pipeline.corpus.tables import SPLITS, load_images
from pipeline.features.feature_file import FeatureFile
from pipeline.features.kept_rows import RowStore
from pipeline.features.paired import PairedFiles
from pipeline.features.shards import FeatureRows
from pipeline.phrases.absent import write_absent
from pipeline.phrases.found import search_of, upper_bound
from pipeline.phrases.proposal_files import ProposalFiles
from pipeline.phrases.tables import distinct_regions, load_phrases
from pipeline.runtime.kernels import loaded_kernels
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import name_of, setup_runtime
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
    inputs, of_boxes = row_inputs(table, regions, sources, settings.features.batch_size)
    machine = [name_of(device), params.runtime.threads, torch.__version__, *loaded_kernels()]
    machine.append(maker.sizes)
    files = PairedFiles(
        images=FeatureRows(
            ids=ids,
            datasets=proposal_datasets(sources.number, maker.width),
            attributes=attributes,
            machine=[*machine, proposer and [proposer.weights, proposer.sizes]],
            inputs=inputs,
        ),
        boxes=FeatureRows(
            ids=regions.ids,
            datasets={"features": ((maker.width,), "float16")},
            attributes=attributes,
            machine=machine,
            inputs=of_boxes,
        ),
        owners=regions.owners(ids),
        batch=settings.features.batch_size,
        fill=partial(
            extract_boxes,
            table,
            regions,
            sources,
            settings,
            device,
            int(params.corpus.max_megapixels * 1e6),
        ),
    )
    store = RowStore(WORK / "rows", params.runtime.extraction.kept_gb)
    files.write(WORK / "proposals", (output, truth), store)
    proposals = FeatureFile(output)
    hits = {split: search_of(tables, split, proposals).hits() for split in SPLITS}
    bounds = [f"{split} {upper_bound(found):.1f}" for split, found in hits.items()]
    sizes = f"{len(ids):,} images, {len(regions.ids):,} boxes of phrases"
    # in so many phrases any proposal is right: no model finds more
    say(f"proposals: {sizes}; R@{sources.number} upper bound {', '.join(bounds)}")


if __name__ == "__main__":
    main()
