"""How many phrases of the test split a model finds, and which box it takes for each."""

from pathlib import Path

from models.phrases import load_phrase_model
from models.phrases.data import PhraseData, PhraseFiles, phrase_scores
from pipeline.evaluation.figures import metrics_digest
from pipeline.features.checkpoint import read_checkpoint
from pipeline.phrases.absent import write_absent
from pipeline.phrases.result import evaluate_phrases, summary_line, write_result
from pipeline.runtime.files import write_json
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import setup_runtime
from stages.common import command, model_name, paths
from stages.params import load_params


@command
@model_name
@paths("phrases", "proposals", "truth", "vectors", exist=True)
@paths("checkpoint", "metrics", "output")
def main(name: str, checkpoint: Path, metrics: Path, output: Path, **paths: Path) -> None:
    """Localise the phrases of the test split with MODEL and measure what it finds."""
    kind = load_phrase_model(name)
    params = load_params(models=[])
    files = PhraseFiles(**paths)
    if files.is_absent:
        write_json(metrics, {"phrases": 0})
        write_absent(output)
        return
    device = setup_runtime(params.runtime, params.seed)
    data = PhraseData(files, params.seed)
    trained = read_checkpoint(checkpoint, name)
    trained.require(data.identity)
    model = kind.from_checkpoint(trained, name).to(device)
    search = data.search("test")
    scores = phrase_scores(model, search)
    result = evaluate_phrases(
        search.searched,
        scores,
        params.phrases.nms,
        params.evaluation.bootstrap,
        params.evaluation.confidence,
        params.seed,
    )
    content = result.summary()
    attributes = {"model": name, "metrics_sha256": metrics_digest(content)}
    write_result(output, search.searched, scores, result, attributes)
    write_json(metrics, content)
    say(f"{name}: {summary_line(result)}")


if __name__ == "__main__":
    main()
