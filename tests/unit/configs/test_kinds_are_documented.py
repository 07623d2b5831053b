"""Every kind of symptom stands in docs/detectors.md, and says there whether it counts."""

import re
from pathlib import Path

import pytest

from configs.taxonomy import taxonomy

PAGE = (Path(__file__).parents[3] / "docs" / "detectors.md").read_text("utf-8")


@pytest.mark.parametrize("kind", sorted(taxonomy().kinds))
def test_the_page_says_what_a_kind_is_and_whether_it_counts(kind: str) -> None:
    row = re.search(rf"^\| `{kind}` \| (yes|hint)\b[^|]*\| ([^|]+) \|", PAGE, re.MULTILINE)
    assert row is not None
    assert (row[1] == "yes") == taxonomy().counted(kind)
    assert len(row[2].split()) > 3


def test_the_page_names_no_kind_that_is_gone() -> None:
    named = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert named == set(taxonomy().kinds)
