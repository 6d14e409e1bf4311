"""Attention as pictures: light falls where the weights say, the order is told, all is embedded."""

import base64
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pipeline.report.attention import (
    DARKEST,
    attention_figure,
    attention_heat,
    draw_attention,
    draw_heatmap,
    draw_ordered_boxes,
    draw_weighted_boxes,
    shown_pairs,
)
from pipeline.report.attention_pairs import PairAttention, RankedPair


def made_pair(**changes):
    """Three words over two regions, the left upper and the right lower quarter of 80 x 40."""
    values = {
        "image_id": "a",
        "caption_id": "x",
        "words": ["left", "right", "<b>none</b>"],
        "score": 0.25,
        "weights": np.array([[0.9, 0.1], [0.2, 0.8], [0, 0]], np.float32),
        "boxes": np.array([[0, 0, 40, 20], [40, 20, 80, 40]], np.float32),
        "size": (80, 40),
    }
    return PairAttention(**(values | changes))


@settings(max_examples=20)
@given(st.integers(0, 5), st.integers(0, 10**6))
def test_heat_is_the_sum_over_covering_regions_pixel_by_pixel(count, seed):
    rng = np.random.default_rng(seed)
    width, height = rng.integers(1, 12, 2).tolist()
    corners = np.sort(rng.integers(-3, [width + 4, height + 4], (count, 2, 2)), axis=1)
    boxes = corners.reshape(count, 4).astype(np.float32)
    weights = rng.uniform(size=count).astype(np.float32)
    slow = np.zeros((height, width))
    for y in range(height):
        for x in range(width):
            for weight, (left, top, right, bottom) in zip(weights, boxes, strict=True):
                if left <= x < right and top <= y < bottom:
                    slow[y, x] += weight
    found = attention_heat(weights, boxes, (width, height), (width, height))
    assert np.allclose(found, slow / slow.max() if slow.max() > 0 else slow, atol=1e-6)
    doubled = attention_heat(weights, boxes, (width, height), (2 * width, 2 * height))
    assert np.allclose(doubled, found.repeat(2, 0).repeat(2, 1), atol=1e-6)


def test_the_image_is_light_where_a_word_attends_and_dark_elsewhere():
    colour = np.array([200, 100, 40])
    image = Image.new("RGB", (80, 40), tuple(colour.tolist()))
    for row in (0, 1):
        weights = made_pair().weights[row]
        light = DARKEST + (1 - DARKEST) * weights / weights.max()
        pixels = np.asarray(draw_heatmap(image, made_pair(), row, 80)).astype(int)
        for (x, y), share in zip(((10, 10), (60, 30)), light, strict=True):  # a pixel per region
            assert pixels[y, x] == pytest.approx(share * colour, abs=1)
        assert pixels[35, 5] == pytest.approx(DARKEST * colour, abs=1)
    assert np.allclose(
        np.asarray(draw_heatmap(image, made_pair(), 2, 80)), DARKEST * colour, atol=1
    )


YELLOW, BLUE = np.array([255, 224, 70]), np.array([70, 60, 200])


def labels(drawn):
    """Whether the labels in the middle of the left and the right region are yellow, or blue."""
    parts = drawn[32:48, 72:88], drawn[112:128, 232:248]
    return [[bool((part == own).all(-1).any()) for own in (YELLOW, BLUE)] for part in parts]


def test_order_and_weights_are_drawn_by_colour(tmp_path):
    image = Image.new("RGB", (80, 40), "grey")
    image.save(tmp_path / "a.png")
    plain = np.asarray(draw_ordered_boxes(image, made_pair(), 320))
    assert (plain[40, 80] == 128).all()  # the middle of a region: no order, no number
    left_first, right_first = [[True, False], [False, True]], [[False, True], [True, False]]
    for order, expected in (([0, 1], left_first), ([1, 0], right_first)):
        pair = made_pair(order=np.array(order))
        assert labels(np.asarray(draw_ordered_boxes(image, pair, 320))) == expected
    for shares, expected in (([0.9, 0.0], left_first), ([0.0, 0.9], right_first)):
        pair = made_pair(region_weights=np.array(shares, np.float32))
        assert labels(np.asarray(draw_weighted_boxes(image, pair, 320))) == expected
        figure = attention_figure(RankedPair(pair, 1, True), tmp_path / "a.png", "x")
        assert figure["weighed"].startswith("data:image/jpeg;base64")
        low = draw_attention(made_pair(), tmp_path / "a.png", "x").height
        assert draw_attention(pair, tmp_path / "a.png", "x").height > low + 200


def test_a_figure_has_a_picture_for_every_word(tmp_path):
    Image.new("RGB", (80, 40), "red").save(tmp_path / "a.png")
    shares = np.array([0.5, 0.25, 0.25], np.float32)
    pair = RankedPair(made_pair(word_weights=shares), 2, True)
    figure = attention_figure(pair, tmp_path / "a.png", "Left or right.")
    assert [word["word"] for word in figure["words"]] == pair.attention.words
    assert [word["share"] for word in figure["words"]] == [1, 0.5, 0.5]
    assert "from (0, 0) to (40, 20), weight 0.90" in figure["words"][0]["text"]
    assert "from (40, 20) to (80, 40), weight 0.80" in figure["words"][1]["text"]
    for uri in [figure["whole"], *[word["picture"] for word in figure["words"]]]:
        picture = Image.open(io.BytesIO(base64.b64decode(uri.split(",")[1])))
        assert picture.width == 2 * picture.height
    plain = attention_figure(RankedPair(made_pair(), 2, True), tmp_path / "a.png", "x")
    assert [word["share"] for word in plain["words"]] == [None] * 3
    assert plain["weighed"] is None


@pytest.mark.parametrize("count", [1, 14])
def test_a_sheet_grows_with_the_words_and_shows_bars(tmp_path, count):
    Image.new("RGB", (80, 40), "red").save(tmp_path / "a.png")
    pair = made_pair(
        words=["word"] * count,
        weights=np.full((count, 2), 0.5, np.float32),
        word_weights=np.full(count, 1 / count, np.float32),
        order=np.array([1, 0]),
    )
    sheet = draw_attention(pair, tmp_path / "a.png", "A caption. " * 20)
    pixels = np.asarray(sheet).astype(int)
    red = (np.abs(pixels - [255, 0, 0]).sum(2) < 12).sum()
    bars = (pixels == [0x1F, 0x6F, 0xB2]).all(2).sum()
    assert bars > 500 * count
    assert red > 5000 * count
    assert (pixels[-4:] == 255).all()


def test_regions_that_are_none(tmp_path):
    Image.new("RGB", (80, 40), "red").save(tmp_path / "a.png")
    none = np.zeros(0, np.float32)
    shapes = {"weights": none.reshape(3, 0), "boxes": none.reshape(0, 4)}
    pair = made_pair(**shapes, order=none.astype(int), region_weights=none)
    assert draw_attention(pair, tmp_path / "a.png", "x").height > 400
    figure = attention_figure(RankedPair(pair, 1, True), tmp_path / "a.png", "x")
    assert "no region" in figure["words"][0]["text"]


def test_the_page_shows_true_pairs_and_one_wrong_one_before_its_own():
    places = [("x", 1, True), ("x", 2, False), ("y", 3, True), ("y", 1, False)]
    places += [("z", 2, True), ("z", 1, False)]
    pairs = [RankedPair(made_pair(caption_id=name), *rest) for name, *rest in places]
    shown = [(p.attention.caption_id, p.place) for p in shown_pairs(pairs)]
    assert shown == [("x", 1), ("y", 3), ("z", 1), ("z", 2)]
    assert shown_pairs(pairs[:2]) == pairs[:1]
    assert shown_pairs([]) == []
