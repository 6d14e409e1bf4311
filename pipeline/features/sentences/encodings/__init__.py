"""The sentence encodings, a file each: its name is what `sentences.encoding` of params.yaml says.
One is the one public class of its file, with the methods of encoder.Encoding."""

from pipeline.runtime.registry import ONE_CLASS, Registry

ENCODINGS = Registry(
    "pipeline.features.sentences.encodings",
    "sentence encoding",
    ONE_CLASS,
    "one class, an Encoding",
)
