"""Arrow's arrays as Python's values."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pipeline.features.arrays.nested import python_values

TEXT = pa.string()
KINDS = [
    TEXT,
    pa.binary(),
    pa.int32(),
    pa.list_(TEXT),
    pa.large_list(TEXT),
    pa.list_(TEXT, 2),
    pa.struct({"raw": TEXT, "tokens": pa.list_(TEXT), "n": pa.int64()}),
    pa.list_(pa.struct({"raw": TEXT, "n": pa.int64()})),
]


def values_of(kind):
    """Values of a type, None among them."""
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        one = st.fixed_dictionaries({name: values_of(kind.field(name).type) for name in names})
    elif pa.types.is_fixed_size_list(kind):
        one = st.lists(values_of(kind.value_type), min_size=2, max_size=2)
    elif pa.types.is_nested(kind):
        one = st.lists(values_of(kind.value_type), max_size=3)
    elif kind == TEXT:
        one = st.sampled_from(["", "a", "bcd", "ä"])
    else:
        one = st.binary(max_size=3) if kind == pa.binary() else st.integers(-5, 5)
    return st.none() | one


@given(
    st.sampled_from(KINDS).flatmap(
        lambda kind: st.tuples(st.just(kind), st.lists(values_of(kind)))
    ),
    st.data(),
)
def test_they_are_those_of_to_pylist(case, data):
    kind, values = case
    array = pa.array(values, kind)
    start = data.draw(st.integers(0, len(values)))
    part = array.slice(start, data.draw(st.integers(0, len(values) - start)))
    assert python_values(array) == values
    assert python_values(part) == part.to_pylist()


@given(st.lists(st.none() | st.sampled_from(["a", "b", "cc"])), st.data())
def test_values_of_a_dictionary_are_one_object(values, data):
    array = pa.array(values, TEXT).dictionary_encode()
    start = data.draw(st.integers(0, len(values)))
    found = python_values(array.slice(start))
    assert found == values[start:]
    assert len({id(value) for value in found if value}) == len({*found} - {None})
    nested = pa.ListArray.from_arrays([0, len(values)], array)
    assert python_values(nested) == [values]


def test_only_named_fields_are_read():
    array = pa.array([{"a": 1, "b": "x"}, None], pa.struct({"a": pa.int64(), "b": TEXT}))
    assert python_values(array, ("b",)) == [{"b": "x"}, None]
    assert python_values(array, ("c",)) == [{}, None]
