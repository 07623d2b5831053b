"""A run over cases as the JUnit XML that CI systems read. Pure.

One test case for each case: `failure` where a run failed, `error` where one could not be observed
or was never started, `skipped` where it is quarantined.
"""

import re
from xml.etree import ElementTree as ET

from nodes.cases.run import CaseResult, CasesRun

# What XML 1.0 has no way to say.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(run: CasesRun, project: str) -> bytes:
    """The document, UTF-8 with its declaration. Sealed cases are named by fingerprint alone."""
    results = run.results
    counts = {
        "tests": len(results),
        "failures": run.count("failed"),
        "errors": run.count("missing") + run.count("not_run"),
        "skipped": run.count("skipped"),
    }
    seconds = f"{sum(one.seconds for one in results):.3f}"
    shared = {**{name: str(count) for name, count in counts.items()}, "time": seconds}
    suites = ET.Element("testsuites", {"name": "tracemend", **shared})
    suite = ET.SubElement(
        suites, "testsuite",
        {
            "name": _clean(f"tracemend cases of {project}"), **shared,
            "timestamp": run.started_at.strftime("%Y-%m-%dT%H:%M:%S"),
        },
    )  # fmt: skip
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", {"name": "revision", "value": run.revision})
    if run.stopped is not None:
        ET.SubElement(properties, "property", {"name": "stopped", "value": _clean(run.stopped)})
    for result in results:
        _test_case(suite, result)
    ET.indent(suites)
    document: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _test_case(suite: ET.Element, result: CaseResult) -> None:
    origin = "sealed" if result.sealed else result.case.origin.removeprefix("file:")
    test = ET.SubElement(
        suite, "testcase",
        {
            "classname": _clean(origin), "name": _clean(result.name),
            "time": f"{result.seconds:.3f}",
        },
    )  # fmt: skip
    standing = result.standing
    if standing == "passed":
        return
    if standing == "skipped":
        ET.SubElement(test, "skipped", {"message": _clean(result.why_skipped or "")})
        return
    kind, element = {
        "failed": ("assertion", "failure"),
        "missing": ("missing", "error"),
        "not_run": ("not run", "error"),
    }[standing]
    said = ET.SubElement(test, element, {"message": _clean(summary(result)), "type": kind})
    said.text = _clean("\n".join(_run_line(result, at) for at in range(len(result.runs))))


def summary(result: CaseResult) -> str:
    """What became of a case that did not pass, in one line."""
    runs = len(result.runs)
    if result.standing == "skipped":
        return result.why_skipped or "skipped"
    if result.standing == "not_run":
        return f"{result.asked - runs} of {result.asked} runs were never started"
    bad = "fail" if result.standing == "failed" else "missing"
    count = sum(run.result == bad for run in result.runs)
    what = "; ".join(result.reasons) or bad
    return what if runs == 1 else f"{what} ({count} of {runs} runs)"


def _run_line(result: CaseResult, at: int) -> str:
    run = result.runs[at]
    return f"run {at + 1}: {run.result}" + (f": {'; '.join(run.failed)}" if run.failed else "")


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("?", text)
