"""A check of the probe for a person, and as a document. Whatever the agent said is cleaned."""

import json
from collections.abc import Iterator
from typing import Final

from connectors.review.clean import one_line, safe
from connectors.traces.redact import redact_json
from contracts.json_types import Json
from nodes.probe_check import NO_CASE, Check, hints

SCHEMA: Final = "tracemend.probe-check/1"
OUTPUT_CHARS: Final = 2_000
OUTPUT_LINES: Final = 20
_REASON_CHARS: Final = 500
_NAME_CHARS: Final = 80
_LISTED: Final = 20


def check_lines(check: Check) -> Iterator[str]:
    """What the probe saw, then the hints."""
    seen, usage = check.seen, check.seen.usage
    name = "an input of yours" if check.case.id == NO_CASE else check.case.id
    yield (
        f"{check.spec.kind} probe, {one_line(name)}, harness {check.revision[:12]}: "
        f"{check.result} in {seen.seconds:.2f} s"
    )
    if seen.missing is not None:
        yield f"missing   {one_line(seen.missing, _REASON_CHARS)}"
    elif seen.error is not None:
        yield f"error     {one_line(seen.error, _REASON_CHARS)}"
    else:
        yield from _output_lines(seen.output)
    yield (
        f"usage     {_known(usage.input_tokens)} tokens in, {_known(usage.output_tokens)} out, "
        f"{'cost unknown' if usage.cost_usd is None else f'{usage.cost_usd:g} USD'}"
    )
    yield f"spans     {_spans(check)}"
    if check.tools:
        yield f"tools     {_list([one_line(tool, _NAME_CHARS) for tool in check.tools])}"
    if check.symptoms:
        yield f"symptoms  {_list(_signatures(check))}"
    for place, one in enumerate(check.asserted, start=1):
        yield f"assertion {place} ({one.kind}): {_ANSWERS[one.answer]}"
    for hint in hints(check):
        yield f"hint      {one_line(hint, _REASON_CHARS)}"


_ANSWERS: Final = {"yes": "holds", "no": "does not hold", "unknown": "unknown", None: "not asked"}


def _output_lines(output: Json) -> Iterator[str]:
    text = output if isinstance(output, str) else json.dumps(redact_json(output), indent=1)
    shown = safe(text)[:OUTPUT_CHARS].splitlines()[:OUTPUT_LINES] or [""]
    yield f"output    {shown[0]}"
    for line in shown[1:]:
        yield f"          {line}"
    if sum(map(len, shown)) + len(shown) - 1 < len(safe(text)):
        yield f"          … of {len(text)} characters; all of it with --json"


def _known(tokens: int | None) -> str:
    return "unknown" if tokens is None else str(tokens)


def _spans(check: Check) -> str:
    if check.spans is None:
        return "none"
    return ", ".join(f"{count} {kind}" for kind, count in check.spans.items())


def _signatures(check: Check) -> list[str]:
    return [
        one_line(s.signature, _NAME_CHARS) + ("" if s.counts else " (not counted)")
        for s in check.symptoms
    ]


def _list(names: list[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def check_document(check: Check) -> dict[str, Json]:
    """The document of `probe check --json`; `output` is redacted, and not cut."""
    seen, usage = check.seen, check.seen.usage
    return {
        "schema": SCHEMA,
        "kind": check.spec.kind,
        "case": None if check.case.id == NO_CASE else check.case.id,
        "revision": check.revision,
        "result": check.result,
        "failed": [one_line(why, _REASON_CHARS) for why in check.failed],
        "output": redact_json(seen.output),
        "error": _reason(seen.error),
        "missing": _reason(seen.missing),
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cost_usd": usage.cost_usd,
        },
        "seconds": round(seen.seconds, 3),
        "spans": check.spans,
        "marked": None if seen.trace is None else seen.trace.own,
        "tools": [one_line(tool, _NAME_CHARS) for tool in check.tools],
        "symptoms": [
            {"kind": s.kind, "signature": one_line(s.signature, _NAME_CHARS), "counts": s.counts}
            for s in check.symptoms
        ],
        "assertions": [{"kind": one.kind, "answer": one.answer} for one in check.asserted],
        "hints": list(hints(check)),
    }


def _reason(text: str | None) -> str | None:
    return None if text is None else one_line(text, _REASON_CHARS)
