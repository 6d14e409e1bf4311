"""Recall and average precision against hand examples and the slow form of the definition."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.detector.metrics import GroundTruth, detection_metrics
from models.detector.selection import RegionOutput


def output(boxes, scores, attributes=()):
    """Proposals with features nobody reads; scores: (P, C) without background."""
    scores = torch.tensor(scores, dtype=torch.float32).reshape(len(boxes), -1)
    scores = torch.cat([1 - scores.sum(1, keepdim=True), scores], 1)
    rows = torch.tensor(attributes, dtype=torch.float32).reshape(len(boxes), -1)
    boxes = torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4)
    return RegionOutput(boxes, torch.zeros(len(boxes), 3), scores, rows)


def truth(boxes, labels, attributes=()):
    rows = torch.tensor(attributes, dtype=torch.float32).reshape(len(boxes), -1)
    return GroundTruth(torch.tensor(boxes, dtype=torch.float32), torch.tensor(labels), rows)


A, B, FAR = [0, 0, 10, 10], [20, 20, 30, 30], [50, 50, 60, 60]


def test_a_hand_example():
    """Class 1: right at .9, wrong at .6, right at .3 of two objects: AP = 1/2 + 1/2 * 2/3. Class 2
    is found at .5 of one object and of another class's box."""
    found = output([A, FAR, B, B], [[0.9, 0], [0.6, 0], [0.3, 0], [0, 0.5]])
    judged = detection_metrics([found], [truth([A, B, B], [1, 1, 2])], threshold=0.4)
    assert judged["map"] == pytest.approx((1 / 2 + 1 / 3 + 1) / 2)
    assert judged["recall"] == pytest.approx(2 / 3)


def test_attributes_are_judged_where_objects_were_found():
    found = output([A, B], [[0.9], [0.9]], [[0.9, 0.2, 0.8], [0.1, 0.2, 0.7]])
    judged = detection_metrics([found], [truth([A, B], [1, 1], [[1, 1, 0], [0, 0, 1]])], 0.5)
    assert judged["attributes"] == pytest.approx(2 / 3)  # of a, b and c: b is not among the first
    no_rows = RegionOutput(*(torch.zeros(0, width) for width in (4, 3, 2, 3)))
    for nothing in (no_rows, output([FAR], [[0.9]], [[1, 1, 1]])):
        judged = detection_metrics([nothing], [truth([A], [1], [[1, 0, 0]])], 0.5)
        assert judged == {"recall": 0, "map": 0, "attributes": 0}


def slow_map(outputs, truths):
    """Everingham et al.'s definition (VOC 2010 on), step by step, with torchvision's rules for what
    a detection is: score > 0.05, suppressed within its class by better ones of IoU > 0.5."""
    precisions = []
    for label in sorted({int(one) for truth in truths for one in truth.labels}):
        found, objects = [], sum(int((truth.labels == label).sum()) for truth in truths)
        for image, output in enumerate(outputs):
            left = [p for p in range(len(output.boxes)) if output.object_scores[p, label] > 0.05]
            left.sort(key=lambda p: -float(output.object_scores[p, label]))
            while left:
                best = left.pop(0)
                found.append((float(output.object_scores[best, label]), image, output.boxes[best]))
                left = [p for p in left if overlap(output.boxes[p], output.boxes[best]) <= 0.5]
        taken, right = set(), []
        for _, image, box in sorted(found, key=lambda one: -one[0]):
            own = torch.nonzero(truths[image].labels == label).flatten().tolist()
            ious = [(overlap(box, truths[image].boxes[one]), one) for one in own]
            iou, aim = max(ious, key=lambda pair: pair[0], default=(0, -1))
            right.append(iou >= 0.5 and (image, aim) not in taken)
            taken |= {(image, aim)} if right[-1] else set()
        curve = [(sum(right[:n]) / objects, sum(right[:n]) / n) for n in range(1, len(right) + 1)]
        area, before = 0.0, 0.0
        for recall, _ in curve:
            area += (recall - before) * max(p for r, p in curve if r >= recall)
            before = recall
        precisions.append(area)
    return sum(precisions) / len(precisions)


def overlap(one, two):
    inner = (torch.minimum(one[2:], two[2:]) - torch.maximum(one[:2], two[:2])).clamp(min=0).prod()
    return float(inner / ((one[2:] - one[:2]).prod() + (two[2:] - two[:2]).prod() - inner))


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_mean_average_precision_is_that_of_its_definition(seed):
    generator = torch.Generator().manual_seed(seed)

    def crowd(count):  # boxes around a few places, so that many overlap
        corners = torch.randint(0, 3, (count, 2), generator=generator) * 12.0
        corners += torch.randint(0, 4, (count, 2), generator=generator)
        sides = 8.0 + torch.randint(0, 5, (count, 2), generator=generator)
        return torch.cat([corners, corners + sides], 1)

    outputs, truths = [], []
    for proposals, objects in ((12, 3), (0, 1), (9, 0), (15, 4)):
        scores = (torch.randn(proposals, 4, generator=generator) * 2).softmax(1)
        boxes = crowd(proposals)
        empty = torch.zeros(proposals, 0)
        outputs.append(RegionOutput(boxes, empty, scores, empty))
        labels = torch.randint(1, 4, (objects,), generator=generator)
        truths.append(GroundTruth(crowd(objects), labels, torch.zeros(objects, 0)))
    judged = detection_metrics(outputs, truths, threshold=0.3)
    assert judged["map"] == pytest.approx(slow_map(outputs, truths), abs=1e-9)
