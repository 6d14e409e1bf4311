"""The models that localise phrases, a file each: its name is the model's and its section's.

A model is `prepare(settings, inputs, device) -> TrainingJob` and NETWORK, the class of its network.
"""

from pipeline.runtime.registry import Registry

PHRASE_MODELS = Registry(
    "models.phrases.models",
    "model of phrases",
    "prepare",
    "prepare(settings, inputs, device) -> TrainingJob",
)
