"""A BERT (Devlin et al. 2019) as a part of a model, which trains it along.

A sentence transformer's network is read once, where a training begins. From then on its weights are
the model's: a checkpoint has them, with the sizes that its layers are made from, and the states of
a caption's tokens are computed where they are needed. Dropout is off, so that a caption's states
depend on that caption alone. The library takes seconds to load: it is imported in functions.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from models.layers.linear import length_mask
from pipeline.runtime.errors import WorkbenchError

# of the library's settings, those that the layers follow from
SIZES = (
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "layer_norm_eps",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
)


def sizes_of(body: Any, name: str) -> str:
    """What the layers of a network follow from, for a checkpoint.

    Args:
        body: A network of the library transformers.
        name: Of the network, for a message.

    Returns:
        SIZES as JSON.

    Raises:
        WorkbenchError: It is no BERT.
    """
    config = body.config
    if config.model_type != "bert":
        raise WorkbenchError(
            f"{name}: a network of the type {config.model_type}; only bert can be trained",
            "choose another sentences.transformer.model, such as "
            "sentence-transformers/all-MiniLM-L6-v2, or set vse_infinity.train_words.epochs to 0",
        )
    return json.dumps({key: getattr(config, key) for key in SIZES}, sort_keys=True)


def weights_of(body: nn.Module) -> dict[str, np.ndarray]:
    """The weights that a model takes over, by name; what pools is none of them.

    Args:
        body: A BertModel of the library transformers.

    Returns:
        Arrays of any shape, float32.
    """
    return {
        name: value.detach().float().cpu().numpy()
        for name, value in body.state_dict().items()
        if not name.startswith("pooler.")
    }


class Bert(nn.Module):
    """The layers from token ids to states.

    Args:
        sizes: As `sizes_of` gives them.
        checkpointing: Whether activations are computed again in the backward pass, which saves
            memory and costs time.
    """

    def __init__(self, sizes: str, checkpointing: bool) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        given = json.loads(sizes)
        settings: dict[str, Any] = {key: given[key] for key in SIZES}
        settings["hidden_dropout_prob"] = 0.0
        settings["attention_probs_dropout_prob"] = 0.0
        settings["attn_implementation"] = "eager"
        self.body = BertModel(BertConfig(**settings), add_pooling_layer=False)
        # given with every call: a model is first built without memory, where these have no values
        del self.body.embeddings.position_ids
        del self.body.embeddings.token_type_ids
        if checkpointing:
            # the newer name, where the library has it
            older = self.body.gradient_checkpointing_enable
            enable = getattr(self.body, "activation_checkpointing_enable", older)
            enable({"use_reentrant": False})

    def take(self, weights: Mapping[str, np.ndarray]) -> None:
        """Take over the weights of a network of the same sizes.

        Args:
            weights: As `weights_of` gives them.
        """
        self.body.load_state_dict(
            {name: torch.from_numpy(value) for name, value in weights.items()}
        )

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """States of tokens.

        Args:
            ids: (B, T) of tokens, padded at the end with any.
            lengths: (B,) tokens of each caption, 0 for none.

        Returns:
            (B, T, E); those of padding mean nothing.
        """
        mask = length_mask(lengths, ids.shape[1], ids.device)
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        # with checkpointing transformers asks for gradients of the embeddings, whatever is frozen
        is_trained = any(weight.requires_grad for weight in self.body.parameters())
        with torch.set_grad_enabled(torch.is_grad_enabled() and is_trained):
            states: Tensor = self.body(
                input_ids=ids,
                attention_mask=mask.long(),
                token_type_ids=torch.zeros_like(ids),
                position_ids=positions,
            ).last_hidden_state
        return states
