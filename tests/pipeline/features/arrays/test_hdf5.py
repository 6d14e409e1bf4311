"""Texts of variable length in HDF5: whole files are read, damaged heaps are refused at once."""

import faulthandler

import h5py
import pytest

from pipeline.features.arrays.hdf5 import HEAP, read_hdf5
from pipeline.runtime.errors import WorkbenchError

NAMES = [f"{number}.jpg" * (1 + number % 30) for number in range(2_000)]  # several heaps


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "ids.h5"
    with h5py.File(path, "w") as made:
        made.create_dataset("ids", data=NAMES, dtype=h5py.string_dtype(), chunks=(64,))
        made["ids"][5] = "a longer name in another place of the heap" * 9
    return path


@pytest.fixture
def limited():
    """A read in libhdf5 that does not end hears no signal: the process ends."""
    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def texts(path):
    array = read_hdf5(path).find("ids")
    return [name.decode() for block in array.blocks() for name in block.tolist()]


def test_whole_heaps_are_read(file, limited):
    expected = NAMES.copy()
    expected[5] = "a longer name in another place of the heap" * 9
    assert file.read_bytes().count(HEAP) > 2
    assert texts(file) == expected


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("offset", "damage"), [(16, bytes(64)), (8, b"\xff" * 8), (400, bytes(48))]
)
def test_a_damaged_heap_is_refused(file, limited, last, offset, damage):
    content = file.read_bytes()
    start = (content.rindex if last else content.index)(HEAP) + offset
    file.write_bytes(content[:start] + damage + content[start + len(damage) :])
    with pytest.raises(WorkbenchError, match="damaged: "):
        texts(file)


@pytest.mark.parametrize("layout", [{}, {"chunks": (64,)}])
@pytest.mark.parametrize("number", [0, 70, 1_999])
def test_a_text_is_not_longer_than_the_file(tmp_path, limited, layout, number):
    path = tmp_path / "ids.h5"
    with h5py.File(path, "w") as made:
        ids = made.create_dataset("ids", data=NAMES, dtype=h5py.string_dtype(), **layout).id
        chunk = ids.get_chunk_info(number // 64) if layout else None
        place = chunk.byte_offset if chunk else ids.get_offset()
    assert texts(path) == NAMES
    place += 16 * (number % 64 if layout else number)
    content = bytearray(path.read_bytes())
    assert content[place : place + 4] == len(NAMES[number]).to_bytes(4, "little")
    content[place + 3] = 7
    path.write_bytes(content)
    with pytest.raises(WorkbenchError, match=r"ids has a text of 117,.* bytes, more than the file"):
        texts(path)
