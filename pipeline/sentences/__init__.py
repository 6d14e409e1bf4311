"""Sentences as vectors of fixed width, and which encodings of them there are.

To add one write a class with the methods of `pipeline.sentences.encoder.Encoding` in a module here,
and name both in ENCODINGS. The module is imported only when sentences are encoded with it.
"""

ENCODINGS = {
    "mean_vector": "pipeline.sentences.mean_vector:MeanVector",
    "tfidf": "pipeline.sentences.tfidf:TfIdf",
    "fisher": "pipeline.sentences.joined:JoinedFisher",
}
