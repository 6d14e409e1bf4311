"""A tiny transformer's files: tokenizers of four kinds, and a table of word embeddings."""

import json

import torch
from safetensors.torch import save_file

TABLE = torch.arange(40, dtype=torch.float32).reshape(10, 4)


def byte_letters(word):
    """GPT-2's bytes_to_unicode, applied."""
    seen = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1)]
    seen += range(ord("®"), ord("ÿ") + 1)
    others = [b for b in range(256) if b not in seen]
    return "".join(chr(b if b in seen else 256 + others.index(b)) for b in word.encode())


# of a kind: what a word is in the vocabulary, what is none there, and the rest of `model`
KINDS = {
    "WordPiece": (str, ["[PAD]", "##s"], {"continuing_subword_prefix": "##"}),
    "BPE": (lambda word: "Ġ" + byte_letters(word), ["s", "<s>", "Ġ", "Ġ\u0143"], {"merges": []}),
    "CLIP": (
        lambda word: byte_letters(word) + "</w>",
        ["s", "Ġ"],
        {"merges": [], "end_of_word_suffix": "</w>"},
    ),
    "Unigram": ("▁{}".format, ["s", "<unk>", "▁"], {"type": "Unigram"}),
}


def in_cache(cache, name, monkeypatch):
    """The folder of a model's files in a Hugging Face cache of its own."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    home = cache / f"models--{name.replace('/', '--')}"
    for part in ("refs", "snapshots"):
        (home / part).mkdir(parents=True)
    (home / "refs/main").write_text("c0ffee")
    return home / "snapshots/c0ffee"


def write_model(folder, kind, words, normalizer=None, table=TABLE):
    spell, parts, more = KINDS[kind]
    pieces = parts + [spell(word) for word in words]
    listed = [[piece, -1.5] for piece in pieces]
    vocab = listed if kind == "Unigram" else {piece: i for i, piece in enumerate(pieces)}
    content = {"normalizer": normalizer, "model": {"vocab": vocab} | more}
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(content))
    save_file({"x.wte.weight": table, "wpe.weight": torch.ones(2, 4)}, folder / "model.safetensors")
    return len(parts)
