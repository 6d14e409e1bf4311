"""Headers of parquet's pages: how much memory values can ask for, before they are read."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_cases import write_parquet

from pipeline.features.arrays.pages import MOST_BYTES, read_row_groups, read_struct, unpacked_size
from pipeline.features.arrays.parquet_rows import read_batches
from pipeline.runtime.errors import WorkbenchError

WORDS = [f"word {n} " * (n % 50) for n in range(5_000)]


def size_of(path, group=0):
    metadata = pq.read_metadata(path).row_group(group)
    with open(path, "rb") as stream:
        own = read_row_groups(stream)[group]
        assert own.rows == metadata.num_rows
        return unpacked_size(stream, own, range(metadata.num_columns)), metadata


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_the_sum_is_what_the_footer_of_an_honest_file_says(
    tmp_path, compression, version, dictionary
):
    """The footer's numbers have the headers in them, some thirty bytes a page."""
    table = pa.table({"a": WORDS, "b": [[word] * 2 for word in WORDS], "n": range(len(WORDS))})
    how = {"compression": compression, "use_dictionary": dictionary, "data_page_version": version}
    pq.write_table(table, tmp_path / "x", data_page_size=10_000, row_group_size=3_000, **how)
    for group in range(2):
        size, metadata = size_of(tmp_path / "x", group)
        said = sum(metadata.column(n).total_uncompressed_size for n in range(3))
        assert 0.95 * said < size < said


def test_large_pages_and_values_made_of_others_have_no_bound(tmp_path):
    zeros = pa.table({"a": [bytes(1 << 20)] * (MOST_BYTES // (1 << 20) + 1)})
    how = {"compression": "zstd", "use_dictionary": False}
    pq.write_table(zeros, tmp_path / "x", **how)
    assert (tmp_path / "x").stat().st_size < 100_000
    assert size_of(tmp_path / "x")[0] is None
    del zeros
    prefixes = {"column_encoding": "DELTA_BYTE_ARRAY", **how}
    pq.write_table(pa.table({"a": [b"x" * 1000] * 100}), tmp_path / "x", **prefixes)
    assert size_of(tmp_path / "x")[0] is None


def test_values_made_of_others_take_the_memory_of_one(tmp_path):
    """Each is the one before and nothing more: 200 of them would be 200 times as large."""
    table = pa.table({"a": [bytes(1_000_000)] * 200})
    how = {"compression": "zstd", "use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}
    pq.write_table(table, tmp_path / "x", **how)
    del table
    before = pa.total_allocated_bytes()
    most = 0
    for batch in read_batches(tmp_path / "x", ["a"]):
        most = max(most, pa.total_allocated_bytes() - before)
        assert len(batch) == 1
    assert most < 20_000_000


def test_the_rows_of_a_small_file_come_in_few_batches(tmp_path):
    pq.write_table(pa.table({"a": WORDS, "b": WORDS}), tmp_path / "x")
    batches = list(read_batches(tmp_path / "x", ["a"]))
    assert len(batches) == 1
    assert batches[0].column(0).to_pylist() == WORDS


@given(st.binary(max_size=200))
def test_any_bytes_are_a_struct_or_refused(data):
    try:
        _, end = read_struct(data)
    except (ValueError, IndexError):
        return
    assert end > 0


def test_no_damage_of_the_footer_ends_the_process(tmp_path):
    """Of values that may not be missing, but are counted, pyarrow throws what nobody catches."""
    write_parquet(tmp_path / "x", [{"image": {"bytes": b"abc", "path": "a"}, "caption": "a dog"}])
    content = (tmp_path / "x").read_bytes()
    size = int.from_bytes(content[-8:-4], "little")
    refused = 0
    for place in range(len(content) - 8 - size, len(content) - 8):
        damaged = content[:place] + bytes([content[place] ^ 2]) + content[place + 1 :]
        (tmp_path / "x").write_bytes(damaged)
        try:
            list(read_batches(tmp_path / "x", ["image", "caption"]))
        except (WorkbenchError, KeyError):  # a column that is called otherwise
            refused += 1
    assert refused > size / 10
