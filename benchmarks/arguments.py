"""The command line that the benchmarks over labelled runs share: answer, measure, fit."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson

from contracts.json_types import Json


def run_command(
    name: str,
    *,
    answers: Callable[[Path], Mapping[str, Json]],
    measure: Callable[[Path, int], None],
    fit: Callable[[Path], None] | None = None,
) -> None:
    """`--in DIR --out F` writes answers without labels; `--measure` and `--fit` need labels."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}")
    parser.add_argument("--in", dest="folder", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--repeats", type=int, default=8)
    if fit is not None:
        parser.add_argument("--fit", type=Path)
    given = parser.parse_args()
    if fit is not None and given.fit is not None:
        fit(given.fit)
    if given.measure is not None:
        measure(given.measure, given.repeats)
    if given.folder is not None and given.out is not None:
        found = dict(answers(given.folder))
        given.out.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    asked = given.measure or (given.folder and given.out) or getattr(given, "fit", None)
    if not asked:
        parser.error("give --in and --out, or --measure" + (", or --fit" if fit else ""))
