"""From the files of a dataset to a checked corpus: which readers there are, and what they share.

A reader is a file of pipeline/corpus/readers that offers `read(raw, out, options) -> Source`
(source.py); its name is what `dataset` of params.yaml says. It may set, as plain values: BOXES,
whether it brings boxes that a detector can learn from. It may offer `recognise(folder) ->
list[Found]` (recognise.py), by which `dataset: auto` knows that this reader is meant.

A list of extended positives is a file of pipeline/corpus/positives that offers `read(place,
threshold)`: its pairs with grade, i2t, t2i and either image_id and caption_id (it sets OWN_IDS =
True) or image and caption, MS-COCO's numbers. `corpus.positives` names it. Without
`corpus.positives_path` its place is `installed()`; one that has no such function sets NEEDS_PATH =
True. One that is made of the corpus itself sets FROM_CORPUS = True and offers `read(corpus)`.
"""

from pipeline.runtime.registry import Registry

READERS = Registry("pipeline.corpus.readers", "reader", "read", "read(raw, out, options) -> Source")
POSITIVES = Registry(
    "pipeline.corpus.positives", "list of positives", "read", "read(place, threshold) -> DataFrame"
)
