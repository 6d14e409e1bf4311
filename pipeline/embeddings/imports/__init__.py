"""Where features may come from other than a network or an encoder here, a file each: its name is
what `image_features.source` or `sentences.encoding` of params.yaml says."""

from pipeline.runtime.registry import Registry

IMPORTS = Registry(
    "pipeline.embeddings.imports",
    "import of vectors",
    "import_job",
    "import_job(settings, wanted, corpus_sha256, described) -> FeatureJob",
)
