"""Writes pipeline/evaluation/known_splits.bin: four bytes of a digest of each image's id.

    python docs/tools/known_splits.py Flickr_8k.testImages.txt

The argument is the list that Flickr8k was published with (Hodosh et al. 2013); Karpathy's split is
the same. The ids of MS-COCO's 5,000 test images (Karpathy and Li 2015), in his order, come from the
package eccv_caption, which has them to evaluate on the same images.
"""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from pipeline.evaluation.known_splits import DIGESTS, digest_of  # noqa: E402


def mscoco_ids() -> list[str]:
    """Numbers of the 5,000 images, in the order of dataset_coco.json."""
    found = find_spec("eccv_caption")
    assert found, "pip install eccv_caption"
    folder = Path(str(found.origin)).parent / "data"
    owners = json.loads((folder / "original_caption_to_image.json").read_text())
    captions = np.load(folder / "coco_test_ids.npy", allow_pickle=False)
    return list(dict.fromkeys(str(owners[str(caption)][0]) for caption in captions))


def main() -> None:
    names = Path(sys.argv[1]).read_text().split()
    flickr8k = [name.partition("_")[0] for name in names]
    ids = {"flickr8k": flickr8k, "mscoco": mscoco_ids()}
    assert [len(set(each)) for each in ids.values()] == [1_000, 5_000]
    digests = [digest_of(each) for own in ids.values() for each in own]
    DIGESTS.write_bytes(np.array(digests, ">u4").tobytes())


if __name__ == "__main__":
    main()
