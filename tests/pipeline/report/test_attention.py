"""Attention as pictures: light falls where the weights say, the order is told, all is embedded."""

import base64
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pipeline.attention.pairs import PairAttention, RankedPair
from pipeline.report.attention import (
    DARKEST,
    attention_figure,
    draw_attention,
    heat,
    lit,
    numbered,
    weighed,
)
from pipeline.report.attention_section import shown_pairs


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


@settings(max_examples=40)
@given(st.integers(0, 5), st.integers(0, 10**6))
def test_heat_is_the_sum_over_covering_regions_pixel_by_pixel(count, seed):
    rng = np.random.default_rng(seed)
    width, height = rng.integers(1, 12, 2).tolist()
    corners = np.sort(rng.integers(0, 1 + np.array([width, height]), (count, 2, 2)), axis=1)
    boxes = corners.reshape(count, 4).astype(np.float32)
    weights = rng.uniform(size=count).astype(np.float32)
    slow = np.zeros((height, width))
    for y in range(height):
        for x in range(width):
            for weight, (left, top, right, bottom) in zip(weights, boxes, strict=True):
                if left <= x < right and top <= y < bottom:
                    slow[y, x] += weight
    found = heat(weights, boxes, (width, height), (width, height))
    assert np.allclose(found, slow / slow.max() if slow.max() > 0 else slow, atol=1e-6)
    doubled = heat(weights, boxes, (width, height), (2 * width, 2 * height))
    assert np.allclose(doubled, found.repeat(2, 0).repeat(2, 1), atol=1e-6)


def test_boxes_that_leave_the_image_are_cut():
    found = heat(np.array([1.0]), np.array([[-9, -9, 99, 99.0]]), (10, 5), (20, 10))
    assert found.shape == (10, 20)
    assert (found == 1).all()


def test_the_image_is_light_where_a_word_attends_and_dark_elsewhere():
    image = Image.new("RGB", (80, 40), (200, 100, 40))
    for row, bright, other in ((0, (10, 20), (60, 30)), (1, (60, 30), (10, 20))):
        pixels = np.asarray(lit(image, made_pair(), row, 80)).astype(int)
        weights = made_pair().weights[row]
        share = weights.min() / weights.max()
        assert pixels[bright[1] // 2 + (10 if row else 0), bright[0]] == pytest.approx(
            [200, 100, 40]
        )
        expected = (DARKEST + (1 - DARKEST) * share) * np.array([200, 100, 40])
        assert pixels[other[1] // 2 + (0 if row else 15), other[0]] == pytest.approx(
            expected, abs=1
        )
        assert pixels[35, 5] == pytest.approx(DARKEST * np.array([200, 100, 40]), abs=1)
    dark = np.asarray(lit(image, made_pair(), 2, 80))
    assert np.allclose(dark, DARKEST * np.array([200, 100, 40]), atol=1)


def test_numbers_are_drawn_only_where_there_is_an_order():
    image = Image.new("RGB", (80, 40), "grey")
    plain = np.asarray(numbered(image, made_pair(), 320)).astype(int)
    first = np.asarray(numbered(image, made_pair(order=np.array([0, 1])), 320)).astype(int)
    second = np.asarray(numbered(image, made_pair(order=np.array([1, 0])), 320)).astype(int)
    assert (plain[40, 80] == 128).all()  # the middle of a region
    yellow, blue = np.array([255, 224, 70]), np.array([70, 60, 200])
    # the corner of the number's ground, whatever its glyph
    for drawn, left, right in ((first, yellow, blue), (second, blue, yellow)):
        assert (
            np.abs(drawn[40 - 6, 80 - 4] - left).sum() < 30
            or (drawn[36:44, 76:84] == left).all(-1).any()
        )
        assert (drawn[112:128, 232:248] == right).all(-1).any()
        assert (drawn[32:48, 72:88] == left).all(-1).any()


def test_weights_of_regions_are_told_in_percent_and_by_colour(tmp_path):
    image = Image.new("RGB", (80, 40), "grey")
    image.save(tmp_path / "a.png")
    yellow, blue = np.array([255, 224, 70]), np.array([70, 60, 200])
    for shares, left, right in (([0.9, 0.0], yellow, blue), ([0.0, 0.9], blue, yellow)):
        pair = made_pair(region_weights=np.array(shares, np.float32))
        drawn = np.asarray(weighed(image, pair, 320)).astype(int)
        assert (drawn[112:128, 232:248] == right).all(-1).any()
        assert (drawn[32:48, 72:88] == left).all(-1).any()
        figure = attention_figure(RankedPair(pair, 1, True), tmp_path / "a.png", "x")
        assert figure.weighed.startswith("data:image/jpeg;base64")
        plain = draw_attention(made_pair(), tmp_path / "a.png", "x").height
        assert draw_attention(pair, tmp_path / "a.png", "x").height > plain + 200
    assert (
        attention_figure(RankedPair(made_pair(), 1, True), tmp_path / "a.png", "x").weighed is None
    )


def test_a_figure_has_a_picture_for_every_word(tmp_path):
    Image.new("RGB", (80, 40), "red").save(tmp_path / "a.png")
    shares = np.array([0.5, 0.25, 0.25], np.float32)
    pair = RankedPair(made_pair(word_weights=shares), 2, True)
    figure = attention_figure(pair, tmp_path / "a.png", "Left or right.")
    assert [word.word for word in figure.words] == pair.attention.words
    assert [word.share for word in figure.words] == [1, 0.5, 0.5]
    assert "from (0, 0) to (40, 20), weight 0.90" in figure.words[0].text
    assert "from (40, 20) to (80, 40), weight 0.80" in figure.words[1].text
    for uri in [figure.whole, *[word.picture for word in figure.words]]:
        head, data = uri.split(",")
        assert head == "data:image/jpeg;base64"
        picture = Image.open(io.BytesIO(base64.b64decode(data)))
        assert picture.width == 2 * picture.height
    again = attention_figure(pair, tmp_path / "a.png", "Left or right.")
    assert again.words == figure.words
    plain = attention_figure(RankedPair(made_pair(), 2, True), tmp_path / "a.png", "x")
    assert [word.share for word in plain.words] == [None] * 3


@pytest.mark.parametrize("count", [1, 3, 14])
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
    nothing = {
        "weights": np.zeros((3, 0), np.float32),
        "boxes": np.zeros((0, 4), np.float32),
        "order": np.zeros(0, np.int64),
        "region_weights": np.zeros(0, np.float32),
    }
    pair = made_pair(**nothing)
    assert draw_attention(pair, tmp_path / "a.png", "x").height > 400
    figure = attention_figure(RankedPair(pair, 1, True), tmp_path / "a.png", "x")
    assert "no region" in figure.words[0].text


def test_the_page_shows_true_pairs_and_one_wrong_one_before_its_own():
    def ranked(caption, place, is_true):
        return RankedPair(made_pair(caption_id=caption), place, is_true)

    pairs = [
        *(ranked("x", 1, True), ranked("x", 2, False)),
        *(ranked("y", 3, True), ranked("y", 1, False)),
        *(ranked("z", 2, True), ranked("z", 1, False)),
    ]
    shown = [(p.attention.caption_id, p.place) for p in shown_pairs(pairs)]
    assert shown == [("x", 1), ("y", 3), ("z", 1), ("z", 2)]
    assert shown_pairs(pairs[:2]) == pairs[:1]
    assert shown_pairs([]) == []
