"""Bottom-up TSV files: read bit for bit, and every fault named with file, line and id."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from region_cases import WIDTH, encoded, sample, tsv_fields, world, write_tsv

from pipeline.features.feature_file import FeatureFile, FeatureWriter
from pipeline.features.regions.file import ImageRegions, region_datasets
from pipeline.features.regions.imports.tsv import TsvRegions
from pipeline.features.regions.source import ImportCorpus, import_regions, imported_slots
from pipeline.runtime.errors import WorkbenchError


@pytest.fixture
def case(tmp_path: Path):
    """Table, regions and the fields of every line; image_id without its ending."""
    images = world(tmp_path / "images")
    regions = sample(images)
    names = [name.removesuffix(".png") for name in images["image_id"]]
    return images, regions, [tsv_fields(*pair) for pair in zip(names, regions, strict=True)]


def imported(images, path: Path, output: Path, boxes="adaptive", skip: bool = False) -> FeatureFile:
    source = TsvRegions(path, ImportCorpus(images, skip_others=skip))
    slots = imported_slots(source, boxes, 10)
    datasets, ids = region_datasets(slots, source.width), images["image_id"].tolist()
    with FeatureWriter(output.parent / "work", "f", ids, datasets, {}) as writer:
        import_regions(source, writer, batch_size=5)
        writer.finish(output)
    return FeatureFile(output)


def check(file: FeatureFile, regions: list[ImageRegions]) -> None:
    for row, one in enumerate(regions):
        count = len(one.features)
        assert file.read([row], "counts")[0] == count
        assert tuple(file.read([row], "sizes")[0]) == one.size
        assert file.read([row], "boxes")[0, :count].tobytes() == one.boxes.tobytes()
        features = file.read([row])[0].astype(np.float32)
        assert features[:count].tobytes() == one.features.tobytes()
        assert not features[count:].any()
        assert (file.read([row], "objects") == -1).all()


def test_a_file_in_any_order_is_read_bit_for_bit(tmp_path: Path, case) -> None:
    """An image has no regions; sizes are those of the lines: our copies may be smaller."""
    images, regions, rows = case
    regions[0] = replace(regions[0], boxes=regions[0].boxes[:0], features=regions[0].features[:0])
    rows[0] = tsv_fields("train0", regions[0])
    write_tsv(tmp_path / "r.tsv", rows[::-1])
    smaller = images.assign(width=5, height=5)
    file = imported(smaller, tmp_path / "r.tsv", tmp_path / "out.h5")
    assert file.shape() == (12, max(len(one.features) for one in regions), WIDTH)
    check(file, regions)


def test_boxes_that_are_shares_of_the_image(tmp_path: Path, case, capsys) -> None:
    """One box in pixels, in any image, tells that they are none; boxes of zeros tell nothing."""
    images, regions, rows = case
    parts = [replace(one, boxes=one.boxes / np.tile(np.float32(one.size), 2)) for one in regions]
    names = [name.removesuffix(".png") for name in images["image_id"]]
    rows = [tsv_fields(*pair) for pair in zip(names, parts, strict=True)]
    write_tsv(tmp_path / "r.tsv", rows)
    source = TsvRegions(tmp_path / "r.tsv", ImportCorpus(images))
    for row, one in enumerate(regions):
        found = source.read(row)
        assert found.size == one.size
        np.testing.assert_allclose(found.boxes, one.boxes, rtol=1e-5)
    assert "r.tsv: no corner of a box exceeds 1, so boxes are shares" in capsys.readouterr().err
    rows[4] = tsv_fields(names[4], regions[4])
    write_tsv(tmp_path / "r.tsv", rows)
    found = TsvRegions(tmp_path / "r.tsv", ImportCorpus(images)).read(0)
    np.testing.assert_array_equal(found.boxes, parts[0].boxes)
    none = [replace(one, boxes=np.zeros_like(one.boxes)) for one in regions]
    write_tsv(tmp_path / "r.tsv", [tsv_fields(*pair) for pair in zip(names, none, strict=True)])
    assert not TsvRegions(tmp_path / "r.tsv", ImportCorpus(images)).has_shares
    assert "boxes are shares" not in capsys.readouterr().err


def test_several_files_of_a_folder(tmp_path: Path, case) -> None:
    images, regions, rows = case
    (tmp_path / "tsv").mkdir()
    write_tsv(tmp_path / "tsv/r.tsv.0", rows[:5])
    write_tsv(tmp_path / "tsv/r.tsv.1", rows[5:])
    (tmp_path / "tsv/readme.txt").write_text("not a TSV file")
    check(imported(images, tmp_path / "tsv", tmp_path / "out.h5", boxes=6), regions)
    with pytest.raises(WorkbenchError, match=r"has 4 regions; regions\.boxes = 3"):
        imported(images, tmp_path / "tsv", tmp_path / "out.h5", boxes=3)


def test_an_import_that_was_cut_off_continues(tmp_path: Path, case) -> None:
    images, regions, rows = case
    write_tsv(tmp_path / "r.tsv", rows)
    source = TsvRegions(tmp_path / "r.tsv", ImportCorpus(images))
    read, source.read = source.read, lambda row: read(row) if row < 7 else 1 / 0
    datasets = region_datasets(source.most, WIDTH)
    with (
        pytest.raises(ZeroDivisionError),
        FeatureWriter(tmp_path / "work", "f", images["image_id"].tolist(), datasets, {}) as writer,
    ):
        import_regions(source, writer, batch_size=5)
    # Rows that are there are not read again: this NaN is never seen.
    rows[0] = tsv_fields("train0", replace(regions[0], features=regions[0].features * np.nan))
    write_tsv(tmp_path / "r.tsv", rows)
    check(imported(images, tmp_path / "r.tsv", tmp_path / "out.h5"), regions)


def fields(one: ImageRegions, dtype: str = "<f4", **changes) -> list[bytes]:
    return tsv_fields("train2", replace(one, **changes), dtype)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda row, one: [*row[:3], b"%d" % (len(one.boxes) + 1), *row[4:]], "boxes hold"),
        (lambda row, one: [*row[:3], b"999999999", *row[4:]], "999,999,999 boxes"),
        (lambda row, one: [*row[:3], b"two", *row[4:]], "num_boxes is b'two'"),
        (lambda row, one: [*row[:5], row[5][:-3]], "not a multiple of 4"),
        (lambda row, one: row[:5], "5 fields"),
        (lambda row, one: fields(one, "<f8"), "boxes hold"),
        (lambda row, one: [*row[:5], encoded(one.features, "<f8")], "features of width"),
        (lambda row, one: [*row[:5], b"*" + row[5][1:]], "no base64"),
        (lambda row, one: fields(one, features=one.features * np.nan), "NaN or .* in region 0"),
        (lambda row, one: fields(one, boxes=one.boxes + np.float32(100)), "the image of 38 x 26"),
        (lambda row, one: fields(one, boxes=one.boxes[:, [2, 1, 0, 3]]), "not x1, y1, x2, y2"),
        (lambda row, one: [row[0], b"0", *row[2:]], "an image of 0 x 26"),
    ],
)
def test_faults_are_named_with_their_line(tmp_path: Path, case, spoil, words: str) -> None:
    images, regions, rows = case
    rows[2] = spoil(rows[2], regions[2])
    write_tsv(tmp_path / "r.tsv", rows)
    with pytest.raises(WorkbenchError, match=words) as error:
        imported(images, tmp_path / "r.tsv", tmp_path / "out.h5")
    assert f"{tmp_path / 'r.tsv'}, line 3" in error.value.message
    assert not (tmp_path / "out.h5").exists()


def test_all_faulty_ids_are_listed(tmp_path: Path, case) -> None:
    images, _, rows = case
    rows[1][0] = b"train0"
    rows[4][0] = b"stranger"
    write_tsv(tmp_path / "r.tsv", rows)
    with pytest.raises(WorkbenchError) as error:
        imported(images, tmp_path / "r.tsv", tmp_path / "out.h5")
    for words in (
        "more than once (1): train0.png (row 1)",
        "not in the corpus (1): stranger (row 4)",
        "without a row (2): train1.png, train4.png",
    ):
        assert words in error.value.message


def test_images_that_only_the_file_has_are_left_out_on_request(tmp_path, case, capsys) -> None:
    images, regions, rows = case
    write_tsv(tmp_path / "r.tsv", rows)
    some = images.drop(index=[3, 7]).reset_index(drop=True)
    with pytest.raises(WorkbenchError, match=r"train3 \(row 3\), val2"):
        imported(some, tmp_path / "r.tsv", tmp_path / "out.h5")
    file = imported(some, tmp_path / "r.tsv", tmp_path / "out.h5", skip=True)
    check(file, [one for row, one in enumerate(regions) if row not in (3, 7)])
    assert "left out 2 rows of ids" in capsys.readouterr().err


def test_a_header_and_an_empty_folder_are_said_plainly(tmp_path: Path, case) -> None:
    images, _, rows = case
    header = [b"image_id", b"image_w", b"image_h", b"num_boxes", b"boxes", b"features"]
    write_tsv(tmp_path / "r.tsv", [header, *rows])
    with pytest.raises(WorkbenchError, match=r"line 1: image_w .* has no header"):
        TsvRegions(tmp_path / "r.tsv", ImportCorpus(images))
    with pytest.raises(WorkbenchError, match=r"no folder with \*\.tsv"):
        TsvRegions(tmp_path / "images", ImportCorpus(images))


def lxmert_fields(name: str, one: ImageRegions, kind: str = "<i8") -> list[bytes]:
    """LXMERT's ten columns: the height first, classes and confidences before the boxes."""
    width, height = one.size
    return [
        name.encode(),
        b"%d" % height,
        b"%d" % width,
        encoded(one.objects, kind),
        encoded(one.confidences),
        encoded(one.attributes, kind),
        encoded(one.attribute_confidences),
        b"%d" % len(one.features),
        encoded(one.boxes),
        encoded(one.features),
    ]


def with_classes(one: ImageRegions, seed: int) -> ImageRegions:
    random = np.random.default_rng(seed)
    count = len(one.features)
    return replace(
        one,
        objects=random.integers(0, 1600, count),
        attributes=random.integers(0, 400, count),
        confidences=random.random(count).astype(np.float32),
        attribute_confidences=random.random(count).astype(np.float32),
    )


@pytest.mark.parametrize("kind", ["<i8", "<i4"])
def test_lxmert_files_keep_boxes_and_classes(tmp_path: Path, case, kind: str) -> None:
    images, regions, _ = case
    named = [with_classes(one, seed) for seed, one in enumerate(regions)]
    pairs = zip(images["image_id"], named, strict=True)
    rows = [lxmert_fields(name.removesuffix(".png"), one, kind) for name, one in pairs]
    write_tsv(tmp_path / "r_obj36.tsv", rows[::-1])
    file = imported(images, tmp_path / "r_obj36.tsv", tmp_path / "out.h5")
    for row, one in enumerate(named):
        count = len(one.features)
        assert tuple(file.read([row], "sizes")[0]) == one.size
        assert file.read([row], "boxes")[0, :count].tobytes() == one.boxes.tobytes()
        assert file.read([row])[0, :count].astype("f4").tobytes() == one.features.tobytes()
        for name in ("objects", "attributes", "confidences", "attribute_confidences"):
            np.testing.assert_array_equal(file.read([row], name)[0, :count], getattr(one, name))
            assert (file.read([row], name)[0, count:] <= 0).all()


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        (3, encoded(np.ones(9)), "objects_id hold 36 bytes; expected are 8 or 16"),
        (3, encoded(np.ones(2, np.float32)), "objects_id has 1,065,353,216, which is no number"),
        (4, encoded(np.ones(2), "<f8"), "objects_conf hold 16 bytes; expected are 8"),
        (5, encoded(np.full(2, -1), "<i8"), "attrs_id has -1, which is no number of a class"),
        (7, b"two", "num_boxes is b'two'"),
    ],
)
def test_faults_of_lxmert_files_are_named(tmp_path, case, column, value, words) -> None:
    images, regions, _ = case
    one = with_classes(regions[0], 0)
    one = ImageRegions(one.size, *(np.repeat(v[:1], 2, 0) for v in list(vars(one).values())[1:]))
    row = lxmert_fields("train0", one)
    row[column] = value
    write_tsv(tmp_path / "r.tsv", [row])
    alone = images[:1].reset_index(drop=True)
    with pytest.raises(WorkbenchError, match=words) as error:
        imported(alone, tmp_path / "r.tsv", tmp_path / "out.h5")
    assert f"{tmp_path / 'r.tsv'}, line 1" in error.value.message


def test_a_table_of_another_form_was_not_cut_short(tmp_path: Path, case) -> None:
    images, _, rows = case
    (tmp_path / "r.tsv").write_text('100\t{"num_boxes": 3}\n')
    with pytest.raises(WorkbenchError, match="2 fields separated by tabs") as error:
        TsvRegions(tmp_path / "r.tsv", ImportCorpus(images))
    assert "a table of another form, as VinVL's are" in error.value.hint
    write_tsv(tmp_path / "r.tsv", [*rows[:3], rows[3][:4]])
    with pytest.raises(WorkbenchError, match="line 4: 4 fields") as error:
        TsvRegions(tmp_path / "r.tsv", ImportCorpus(images))
    assert "the file was cut short" in error.value.hint


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_halves_are_told_by_their_bits(tmp_path: Path, case, scale) -> None:
    """Two halves are as long as one float32, so that the number of boxes fits."""
    images, regions, _ = case
    random = np.random.default_rng(5)
    names = [name.removesuffix(".png") for name in images["image_id"]]
    wide = [
        replace(one, features=np.maximum(random.normal(0, scale, (len(one.boxes), 400)), 0))
        for one in regions
    ]
    fields = [list(tsv_fields(*pair)) for pair in zip(names, wide, strict=True)]
    for own, one in zip(fields, wide, strict=True):
        own[5] = encoded(one.features, "<f2")
    write_tsv(tmp_path / "r.tsv", fields)
    source = TsvRegions(tmp_path / "r.tsv", ImportCorpus(images))
    assert source.width == 200
    with pytest.raises(WorkbenchError, match=r"line 1 \(image_id train0\): features are halves"):
        source.read(0)


@pytest.mark.parametrize(
    "values",
    [
        lambda random: np.maximum(random.standard_normal((4, 200)), 0).astype(np.float32),
        lambda random: random.standard_normal((4, 200)).astype(np.float16).astype(np.float32),
        lambda random: random.integers(0, 9, (4, 200)).astype(np.float32),
        lambda random: np.full((4, 200), 0.1, np.float32),
        lambda random: np.round(random.standard_normal((4, 200)), 1).astype(np.float32),
    ],
)
def test_float32_of_few_digits_is_no_half(tmp_path: Path, case, values) -> None:
    images, regions, _ = case
    one = replace(
        regions[0],
        boxes=np.tile(np.float32([0, 0, 1, 1]), (4, 1)),
        features=values(np.random.default_rng(6)),
    )
    write_tsv(tmp_path / "r.tsv", [tsv_fields("train0", one)])
    source = TsvRegions(tmp_path / "r.tsv", ImportCorpus(images[:1]))
    assert source.read(0).features.tobytes() == one.features.tobytes()
