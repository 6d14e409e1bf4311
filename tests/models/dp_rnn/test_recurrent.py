"""The recurrent visual embedding against nn.GRU one pair at a time, and the orders it reads in."""

import pytest
import torch

from models.dp_rnn.recurrent import (
    CODES,
    MULTIPLIER,
    attended_order,
    content_codes,
    random_order,
)


def test_objects_follow_their_words_and_ties_keep_their_order():
    relations = torch.tensor(
        [
            [0.1, 0.2, 0.9, 7.0],  # the third word: the fourth is padding
            [0.5, 0.1, 0.1, 7.0],  # the first
            [0.3, 0.3, 0.2, 7.0],  # a tie goes to the first
            [-0.3, -0.1, -0.1, 7.0],  # the second, the largest of negative ones
            [9.0, 0.0, 0.0, 7.0],  # does not exist
        ]
    )
    order = attended_order(relations[None], torch.tensor([4]), torch.tensor([3]))
    assert order.tolist() == [[1, 2, 3, 0, 4]]
    even = attended_order(torch.ones(1, 5, 1), torch.tensor([5]), torch.tensor([1]))
    assert even.tolist() == [[0, 1, 2, 3, 4]]


def test_random_orders_depend_on_the_pair_alone():
    generator = torch.Generator().manual_seed(0)
    features = torch.rand(40, 6, 3, generator=generator)
    counts = torch.randint(1, 7, (40,), generator=generator)
    codes = content_codes(features, counts)
    longer = torch.cat([features, torch.rand(40, 2, 3, generator=generator)], dim=1)
    assert torch.equal(content_codes(longer, counts), codes)  # padding is not read
    assert torch.equal(content_codes(features[7:9], counts[7:9]), codes[7:9])
    assert len(codes.unique()) == 40
    captions = content_codes(torch.arange(80).reshape(40, 2), torch.full((40,), 2))
    order = random_order(codes, captions, counts, 6)
    assert torch.equal(random_order(codes[3:5], captions[3:5], counts[3:5], 6), order[3:5])
    assert torch.equal(order.sort(1).values, torch.arange(6).expand(40, 6))
    for row, count in zip(order.tolist(), counts.tolist(), strict=True):
        assert row[count:] == list(range(count, 6))
    assert not torch.equal(random_order(codes, captions.roll(1), counts, 6), order)


def slow_scattered(code):
    code = code % CODES * MULTIPLIER % CODES
    return (code ^ (code >> 13)) * MULTIPLIER % CODES


@pytest.mark.parametrize("kind", [torch.int64, torch.float32])
def test_codes_follow_from_all_that_is_read_and_its_place(kind):
    """The value of a code is nobody's business, but another one would train other networks."""
    generator = torch.Generator().manual_seed(2)
    rows = torch.randn(9, 4, 3, generator=generator).mul(1e6).to(kind)
    lengths = torch.randint(1, 5, (9,), generator=generator)
    bits = (rows.view(torch.int32) if kind.is_floating_point else rows).flatten(2).tolist()
    expected = []
    for row, length in zip(bits, lengths.tolist(), strict=True):
        total = 0
        for place, values in enumerate(row[:length]):
            numbered = enumerate(values, 3 * place)
            total += (
                sum(slow_scattered(value + 7 * number + 1) for number, value in numbered) % CODES
            )
        expected.append(slow_scattered(total))
    assert content_codes(rows, lengths).tolist() == expected


def test_random_orders_are_even():
    """Each of the 6 orders of 3 objects should come up about 1,000 times in 6,000 pairs."""
    images, captions = torch.arange(60).repeat_interleave(100), torch.arange(100).repeat(60)
    order = random_order(images, captions, torch.full((6000,), 3), 3)
    counts = (order * torch.tensor([9, 3, 1])).sum(1).unique(return_counts=True)[1]
    assert len(counts) == 6
    assert (counts - 1000).abs().max() < 150  # 5 standard deviations of 29
