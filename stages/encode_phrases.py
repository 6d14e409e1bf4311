"""A vector of every unique phrase, by the encoder of the captions."""

from pathlib import Path

import numpy as np

from pipeline.features.feature_file import FeatureFile, write_features
from pipeline.features.sentences.encoder import blocks, check_known, encoder_of
from pipeline.phrases.absent import write_absent
from pipeline.phrases.tables import load_phrases
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import set_threads
from stages.common import command, paths
from stages.params import load_params


@command
@paths("phrases", "sentences", "encoder", exist=True)
@paths("output")
def main(phrases: Path, sentences: Path, encoder: Path, output: Path) -> None:
    """Encode every unique phrase as the captions were."""
    params = load_params(models=[])
    tables = load_phrases(phrases)
    if not len(tables):
        write_absent(output)
        return
    set_threads(params.runtime.threads)
    captions = FeatureFile(sentences)
    model = encoder_of(captions, encoder, params.sentences.tfidf.wordnet_folder)
    texts = sorted(set(tables.phrases["text"]))
    words = [text.split() for text in texts]
    check_known(texts, words, model, params.sentences.unknown)
    vectors = np.concatenate([model.encode(block) for _, block in blocks(words, model.block)])
    attributes = {
        name: value for name, value in captions.attributes.items() if name != "schema_version"
    }
    write_features(output, texts, {"features": vectors.astype(np.float16)}, attributes)
    say(f"phrases: {len(texts):,} x {model.dim}, {model}")


if __name__ == "__main__":
    main()
