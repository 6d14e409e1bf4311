import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.phrases.boxes import rows_of_images


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(-1, n - 1)))))
def test_rows_of_images_are_those_that_a_search_for_each_finds(drawn):
    count, owners = drawn[0], np.array(drawn[1], int)
    found = rows_of_images(owners, count)
    assert [rows.tolist() for rows in found] == [
        np.flatnonzero(owners == image).tolist() for image in range(count)
    ]
