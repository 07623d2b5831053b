"""Every fault of an apply that `python -m benchmarks.faults_apply` knows, told once."""

from pathlib import Path

import pytest

from benchmarks.faults_apply import every, tell
from benchmarks.faults_apply_told import Fault, Told

pytestmark = [pytest.mark.servers, pytest.mark.kill]


@pytest.mark.parametrize("fault", list(every()), ids=lambda fault: fault.id)
def test_the_edit_is_applied_once_or_not_at_all(fault: Fault, tmp_path: Path) -> None:
    told = tell(fault, tmp_path)
    assert isinstance(told, Told), told
    assert told.result in ("applied once", "not at all")
    assert told.said or told.result == "applied once"
