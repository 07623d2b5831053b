"""Two rounds of the crash matrix, in few stories with many kills; replicas and Aegra at a few.

`python -m benchmarks.faults` has each point in a story of its own, and as many rounds as asked for.
"""

from pathlib import Path

import pytest

from benchmarks.faults import rounds
from benchmarks.faults_modes import NotHereError, open_mode
from benchmarks.faults_points import LOCAL_RUN, chains, points
from tests.services import STAGE_2, missing_langgraph_dev

pytestmark = [
    pytest.mark.servers,
    pytest.mark.kill,
    pytest.mark.skipif(missing_langgraph_dev() is not None, reason=STAGE_2),
]

FEW = ("alert-kept", "approve-switched-not-recorded")


def failures(mode: str, ids: tuple[str, ...], number: int, folder: Path) -> tuple[int, list[str]]:
    """How many stories were told in the mode, and what went wrong in them."""
    every = chains(LOCAL_RUN) if not ids else points(mode)
    which = [point for point in every if not ids or point.id in ids]
    try:
        with open_mode(mode, folder) as opened:
            told = list(rounds(opened, which, number, folder, jobs=2))
    except NotHereError as absent:
        pytest.skip(str(absent))
    return len(told), [f"{one.point}: {one.problem}" for one in told if one.problem is not None]


def test_two_rounds_of_every_point_on_one_machine(tmp_path: Path) -> None:
    assert failures("embedded", (), 2, tmp_path) == (2 * len(chains(LOCAL_RUN)), [])


def test_another_replica_on_postgresql_goes_on_with_the_work_of_a_killed_one(
    tmp_path: Path,
) -> None:
    assert failures("postgres", FEW, 2, tmp_path) == (2 * len(FEW), [])


def test_on_aegra_a_killed_server_goes_on_when_it_is_started_again(tmp_path: Path) -> None:
    assert failures("aegra", FEW, 2, tmp_path) == (2 * len(FEW), [])
