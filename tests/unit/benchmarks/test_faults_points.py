"""The crash matrix names functions of the product; one that is gone would kill nothing."""

import importlib

import pytest

from benchmarks.faults_points import Kill, Point, points


@pytest.mark.parametrize("mode", ["embedded", "postgres", "aegra"])
def test_every_point_names_a_function_that_is_there(mode: str) -> None:
    gone = [(point.id, kill.place) for point in points(mode) for kill in _named(point)]
    assert [each for each in gone if not _is_there(each[1])] == []


def _named(point: Point) -> list[Kill]:
    return [kill for kill in point.kills if kill.place]


def _is_there(place: str) -> bool:
    module, _, name = place.partition(":")
    found: object = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return callable(found)
