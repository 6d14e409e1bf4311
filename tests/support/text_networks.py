"""Sentence transformers of random weights in the real format, as the library's own files are."""

import json

import torch

LETTERS = [*"abcdefghijklmnopqrstuvwxyz'"]
LONGEST = 12  # tokens that they read
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 32, "max_position_embeddings": LONGEST}


def write_text_network(folder, words, pooling="mean", seed=0):
    """A BERT of width 16, whose tokeniser knows the words and pieces of letters."""
    from transformers import BertConfig, BertModel, BertTokenizer

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *LETTERS]
    names = [*dict.fromkeys(names), *(f"##{letter}" for letter in LETTERS)]
    save(folder, BertModel(BertConfig(vocab_size=len(names), **SIZES)), seed)
    BertTokenizer(vocab=numbered(names)).save_pretrained(folder)
    write_modules(folder, {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": LONGEST})
    modes = ("cls_token", "mean_tokens", "max_tokens")
    modes = {f"pooling_mode_{mode}": mode.startswith(pooling) for mode in modes}
    write_json(folder / "1_Pooling/config.json", {"word_embedding_dimension": 16} | modes)
    return folder


def write_clip(folder):
    """CLIP with a joint space of width 16, both towers; its tokeniser knows letters."""
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, CLIPTokenizer

    names = [*LETTERS, *(f"{one}</w>" for one in LETTERS), "<|startoftext|>", "<|endoftext|>"]
    ends = {"bos_token_id": len(names) - 2, "eos_token_id": len(names) - 1}
    sizes = {key: value for key, value in SIZES.items() if not key.startswith("max")}
    image = sizes | {"image_size": 32, "patch_size": 16}
    text = SIZES | ends | {"vocab_size": len(names)}
    config = CLIPConfig(text_config=text, vision_config=image, projection_dim=16)
    save(folder / "0_CLIPModel", CLIPModel(config), 0)
    tokeniser = CLIPTokenizer(vocab=numbered(names), merges=[], model_max_length=LONGEST)
    CLIPProcessor(CLIPImageProcessor(), tokeniser).save_pretrained(folder / "0_CLIPModel")
    write_modules(folder, {"0_CLIPModel": "CLIPModel"})
    return folder


def save(folder, network, seed):
    """With weights that tell captions apart, which the first ones of the library hardly do."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    generator = torch.Generator().manual_seed(seed)
    for weights in network.parameters():
        torch.nn.init.normal_(weights, std=0.5, generator=generator)
    network.save_pretrained(folder)


def numbered(names):
    return {name: number for number, name in enumerate(names)}


def write_modules(folder, kinds):
    types = {path: f"sentence_transformers.models.{kind}" for path, kind in kinds.items()}
    modules = [{"path": path, "type": kind} for path, kind in types.items()]
    write_json(folder / "modules.json", [{"name": str(n)} | m for n, m in enumerate(modules)])


def write_json(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
