"""The design sheet's own simulation: 1,000 projects a cell, before any of this code was written.

Each cell: share accepted (starter: "known cases only" reached), rejected, inconclusive, and runs as
a share of the fixed plan. `None` where the sheet has no such edit.
"""

from collections.abc import Mapping

SHEET_PROJECTS = 1_000
Cell = tuple[float, float, float, float]

_EDITS = ("no effect", "fixes, harms 10", "fixes targets only", "fixes, +5", "fixes, +10")

_ROWS = """
Mini 0    |.00 .00 1.0 .38 |.39 .18 .43 .88 |.85 .00 .15 .81 |.91 .00 .09 .81 |.92 .00 .08 .81
Mini 0.05 |.00 .00 1.0 .45 |.33 .19 .49 .92 |.76 .00 .24 .86 |.82 .00 .18 .88 |.88 .00 .12 .88
Mini 0.2  |.00 .00 1.0 .47 |.36 .10 .54 .98 |.66 .01 .34 .98 |.72 .00 .28 1.00 |.78 .00 .22 1.0
Tiny 0    |.00 .00 1.0 .27 |.12 .48 .40 1.05 |.94 .00 .06 .86 |.98 .00 .02 .86 |.99 .00 .01 .86
Tiny 0.05 |.00 .00 1.0 .33 |.12 .48 .40 1.09 |.86 .00 .13 .94 |.94 .00 .06 .94 |.97 .00 .03 .95
Tiny 0.2  |.00 .00 1.0 .34 |.25 .34 .41 1.1 |.75 .02 .24 1.05 |.83 .01 .16 1.07 |.86 .01 .12 1.06
S15 0     |.00 .00 1.0 .18 |.01 .63 .36 .89 |.84 .00 .16 .84 |.95 .00 .05 .80 |.99 .00 .01 .76
S15 0.05  |.00 .00 1.0 .20 |.00 .25 .75 .86 |.56 .01 .43 .94 |.78 .00 .21 .92 |.92 .00 .09 .88
S15 0.2   |.00 .00 1.0 .21 |.01 .07 .92 .88 |.24 .01 .75 .98 |.47 .01 .52 1.01 |.65 .01 .34 1.03
S10 0     |.00 .00 1.0 .18 |.00 .28 .72 .83 |.85 .00 .15 .85 |.95 .00 .05 .82 |.99 .00 .01 .81
S10 0.05  |.01 .00 .99 .22 |.00 .16 .84 .84 |.50 .00 .50 .94 |.76 .00 .24 .93 |.90 .00 .10 .90
S10 0.2   |.00 .00 .99 .24 |.00 .07 .92 .86 |.26 .00 .73 .95 |.48 .01 .52 1.00 |.66 .01 .33 1.02
Med 0    |.00 .00 1.0 .13 |.00 .84 .15 .68 |.99 .00 .01 .66|1.0 .00 .00 .61|1.0 .00 .00 .58
Med 0.05 |.00 .00 1.0 .16 |.00 .45 .55 .70 |.81 .03 .16 .93 |.98 .00 .02 .83|1.0 .00 .00 .72
Med 0.2  |.00 .00 1.0 .17 |.00 .20 .81 .72 |.36 .02 .62 .97 |.71 .00 .29 1.03 |.91 .01 .08 1.0
Large 0    |.00 .00 1.0 .06 |.00 1.0 .00 .53|1.0 .00 .00 .53|1.0 .00 .00 .53|1.0 .00 .00 .53
Large 0.05 |.00 .00 1.0 .07 |.00 .91 .09 .54 |.85 .03 .12 .91|1.0 .00 .00 .63|1.0 .00 .00 .57
Large 0.2  |.00 .00 1.0 .07 |.00 .58 .42 .55 |.30 .01 .69 .96 |.90 .00 .10 1.0 |.99 .00 .00 .81
"""
_NAMES = {
    "Mini": "Mini, starter",
    "Tiny": "Tiny, starter",
    "S15": "Small, margin .15, level .01",
    "S10": "Small, margin .10, level .05",
    "Med": "Medium, margin .10, level .01",
    "Large": "Large, margin .05, level .01",
}

_USUAL = """
Mini 0    | .00 .00 .00 | .46 .96 .46 | 1.0 1.0 1.0 | 1.0 1.0 1.0 | 1.0 1.0 1.0
Mini 0.05 | .25 .28 .01 | .28 .86 .24 | .67 .97 .55 | .70 .98 .60 | .71 .99 .66
Mini 0.2  | .14 .38 .05 | .09 .57 .07 | .22 .76 .19 | .24 .80 .24 | .28 .84 .30
Tiny 0.05 | .23 .35 .04 | .05 .57 .07 | .37 .93 .36 | .39 .97 .48 | .41 .99 .62
Tiny 0.2  | .01 .41 .05 | .00 .43 .04 | .02 .67 .13 | .03 .78 .20 | .06 .86 .34
S15 0.05  | .03 .42 .05 | .00 .26 .00 | .05 .94 .40 | .05 .99 .72 | .08 1.0 .92
S15 0.2   | .00 .46 .04 | .00 .26 .01 | .00 .68 .14 | .00 .88 .34 | .00 .97 .54
Med 0.05 | .00 .43 .04 | .00 .07 .00 | .00 .96 .50 | .00 1.0 .89 | .00 1.0 .99
Med 0.2  | .00 .48 .05 | .00 .10 .00 | .00 .74 .16 | .00 .94 .49 | .00 1.0 .81
Large 0.05 | .00 .47 .05 | .00 .00 .00 | .00 .90 .33 | .00 1.0 .99 | .00 1.0 1.0
Large 0.2  | .00 .46 .05 | .00 .00 .00 | .00 .68 .12 | .00 .99 .75 | .00 1.0 .99
"""


def _read(text: str) -> Mapping[tuple[str, float, str], tuple[float, ...]]:
    found: dict[tuple[str, float, str], tuple[float, ...]] = {}
    for line in text.strip().splitlines():
        head, *cells = line.split("|")
        name, flakiness = head.split()
        for edit, cell in zip(_EDITS, cells, strict=True):
            found[_NAMES[name], float(flakiness), edit] = tuple(float(x) for x in cell.split())
    return found


RULE = _read(_ROWS)
"""(project, flakiness, edit) to accepted, rejected, inconclusive, share of the plan's runs."""
USUAL = _read(_USUAL)
"""The same to what the three usual rules accept: none worse, mean higher, paired t bound."""
