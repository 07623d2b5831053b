"""The promises of a harness, for a branch of a git repository and for new branches beside it."""

import itertools
from pathlib import Path

import pytest

from tests.contract.git_worlds import GitWorld, repository
from tests.contract.harness_suite import FOLDERS_BEFORE, HarnessSuite, Worlds


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("template") / "agent", FOLDERS_BEFORE.files)


class TestBranch(HarnessSuite):
    @pytest.fixture
    def worlds(self, tmp_path: Path, template: Path) -> Worlds:
        number = itertools.count()
        return lambda: GitWorld(tmp_path / str(next(number)), template)


class TestNewBranch(HarnessSuite):
    @pytest.fixture
    def worlds(self, tmp_path: Path, template: Path) -> Worlds:
        number = itertools.count()
        return lambda: GitWorld(
            tmp_path / str(next(number)), template, new_branch="tracemend/{proposal}"
        )
