"""Word vectors out of a transformer's files, for every kind of tokenizer."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from transformer_files import KINDS, TABLE, in_cache, write_model

from pipeline.corpus.words.vectors import read_vectors
from pipeline.runtime.errors import WorkbenchError

BERT = {"type": "BertNormalizer", "lowercase": True, "strip_accents": None}
LOWER = {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr("pipeline.features.arrays.file.BLOCK_BYTES", 48)  # three rows of float32


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(sorted(KINDS)),
    words=st.lists(st.text("ab'éß日", min_size=1), min_size=1, max_size=6, unique=True),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
    data=st.data(),
)
def test_every_whole_word_has_its_row(tmp_path, kind, words, dtype, data):
    """Also with more rows than pieces, and other words as background."""
    first = write_model(tmp_path / "m", kind, words, table=TABLE.to(dtype))
    wanted = data.draw(st.sets(st.sampled_from(words)))
    found = read_vectors("transformer", tmp_path / "m", [*wanted, "s", "ss", "[PAD]"], background=9)
    rows = {word: TABLE[first + i].numpy() for i, word in enumerate(words)}
    assert found.rows.keys() == wanted
    assert set(found.background.names) == rows.keys() - wanted
    background = zip(found.background.names, found.background.vectors, strict=True)
    for word, row in [*found.rows.items(), *background]:
        np.testing.assert_array_equal(row, rows[word])


@pytest.mark.parametrize(
    ("normalizer", "other_cases", "respelt"),
    [
        (BERT, False, {"Dog": "dog", "Café": "cafe"}),
        (LOWER, False, {"Dog": "dog"}),
        (None, True, {"Dog": "dog"}),
        (None, False, {}),
    ],
)
def test_words_are_normalised_as_the_tokenizer_does(tmp_path, normalizer, other_cases, respelt):
    write_model(tmp_path, "WordPiece", ["dog", "cafe"], normalizer)
    found = read_vectors("transformer", tmp_path, ["Dog", "Café"], other_cases=other_cases)
    assert found.respelt == respelt
    assert found.rows.keys() == respelt.keys()


def test_a_name_is_found_in_the_cache(tmp_path, monkeypatch):
    write_model(in_cache(tmp_path, "org/name", monkeypatch), "BPE", ["dog"])
    found = read_vectors("transformer", Path("org/name"), ["dog"])
    assert found.rows.keys() == {"dog"}
    assert found.sha256.keys() == {"tokenizer.json", "model.safetensors"}
    for absent in ("org/other", "not a name"):
        with pytest.raises(WorkbenchError, match="no such file"):
            read_vectors("transformer", Path(absent), ["dog"])


# what is wrong with a model's files, and the error
SPOILT = {
    "tokenizer.json: no such file": {"tokenizer.json": None},
    "not a tokenizer .*KeyError": {"tokenizer.json": {}},
    "'dog' has the id True": {"tokenizer.json": {"model": {"vocab": {"dog": True}}}},
    "not a tokenizer .*TypeError": {"tokenizer.json": {"model": {"vocab": [[7, 7]]}}},
    "no entry is a whole": {"tokenizer.json": {"model": {"vocab": {"##s": 1}, "merges": []}}},
    "with 11 rows.* size: none\n": {"tokenizer.json": {"model": {"vocab": {"dog": 10}}}},
    "larger than 20 bytes": {"tokenizer.json": {"model": "of more bytes than are allowed"}},
    "can run code": {"model.safetensors": None},
    "damaged, or of another format": {"model.safetensors": {"not": "one"}},
    r"size: odd \(10, 4\)\n": {"odd": TABLE},
    "of this size: none": {"wte.weight": TABLE.int()},
    "NaN or infinite values in the vectors of dog\n": {"wte.weight": TABLE * torch.nan},
}


@pytest.mark.parametrize("match", SPOILT)
def test_files_that_are_no_model_are_refused(tmp_path, match, monkeypatch):
    write_model(tmp_path, "WordPiece", ["dog"])
    for name, content in SPOILT[match].items():
        if isinstance(content, torch.Tensor):
            save_file({name: content}, tmp_path / "model.safetensors")
        elif content is None:
            (tmp_path / name).unlink()
        else:
            (tmp_path / name).write_text(json.dumps(content))
    if "larger" in match:
        monkeypatch.setattr("pipeline.corpus.words.transformer.LARGEST", 20)
    with pytest.raises(WorkbenchError, match=match) as error:
        read_vectors("transformer", tmp_path, ["dog"])
    assert str(tmp_path) in error.value.message
