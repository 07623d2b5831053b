"""Langfuse prompts keep every promise of a harness, over real HTTP."""

from collections.abc import Iterator

import pytest

from tests.contract.harness_suite import Worlds
from tests.contract.langfuse_suite import LangfuseSuite
from tests.contract.langfuse_worlds import Board, prompts_world
from tests.fakes.serving import serve

Place = tuple[Board, str]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """One server for all worlds of the file."""
    board = Board()
    with serve(board) as url:
        yield board, url


class TestPrompts(LangfuseSuite):
    @pytest.fixture
    def worlds(self, place: Place) -> Worlds:
        return lambda: prompts_world(*place)
