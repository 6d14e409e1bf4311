"""The models that localise phrases, a file each, named as the model and its section:
`prepare(settings, inputs, device) -> TrainingJob` and NETWORK, the class of its network."""

from pipeline.runtime.registry import Registry

PHRASE_MODELS = Registry(
    "models.phrases.models",
    "model of phrases",
    "prepare",
    "prepare(settings, inputs, device) -> TrainingJob",
)
