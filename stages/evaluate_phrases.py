"""How many phrases of the test split a model finds, and which box it takes for each."""

from pathlib import Path

from models.phrases.data import PhraseInputs, open_phrases
from models.phrases.models import PHRASE_MODELS
from models.phrases.scoring import phrase_scores
from pipeline.evaluation.figures import metrics_digest
from pipeline.phrases.absent import write_absent
from pipeline.phrases.found import search_of
from pipeline.phrases.result import evaluate_phrases, summary_line, write_result
from pipeline.runtime.files import write_json
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import setup_runtime
from pipeline.storage.checkpoint import read_checkpoint
from stages.common import command, model_name, paths
from stages.params import load_params


@command
@model_name
@paths("phrases", "proposals", "truth", "vectors", exist=True)
@paths("checkpoint", "metrics", "output")
def main(name: str, checkpoint: Path, metrics: Path, output: Path, **paths: Path) -> None:
    """Localise the phrases of the test split with MODEL and measure what it finds."""
    params, inputs = load_params(), PhraseInputs(**paths)
    network = PHRASE_MODELS.imported(name).NETWORK
    if inputs.absent:
        write_json(metrics, {"phrases": 0})
        return write_absent(output)
    device = setup_runtime(params.runtime, params.seed)
    opened, trained = open_phrases(inputs), read_checkpoint(checkpoint, name)
    trained.require(opened.identity)
    model = trained.build(network).to(device)
    searched = search_of(opened.tables, "test", opened.proposals)
    scores = phrase_scores(model, searched, opened.proposals, opened.vectors, device)
    settings = params.evaluation
    protocol = params.phrases.nms, settings.bootstrap, settings.confidence, params.seed
    result = evaluate_phrases(searched, scores, *protocol)
    content = result.summary()
    attributes = {"model": name, "metrics_sha256": metrics_digest(content)}
    write_result(output, searched, scores, result, attributes)
    write_json(metrics, content)
    say(f"{name}: {summary_line(result)}")


if __name__ == "__main__":
    main()
