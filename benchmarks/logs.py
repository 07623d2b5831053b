"""Logs of chat messages for benchmarks: found in a folder, stripped of labels, read as traces.

The trace is made by the product's own reader, of the keys that a benchmark names: what else stands
in a document, such as its verdict, is gone before anything looks at it.
"""

import gzip
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

import orjson

from connectors.traces import chat_logs
from connectors.traces.raw import RawNote, RawSpan
from connectors.traces.tree import build_trace
from contracts.json_types import Json
from contracts.traces import Trace

CAP: Final = 1 << 18
"""Characters of one text that are kept, as when files are read."""
ENDINGS: Final = (".json", ".jsonl", ".json.gz", ".jsonl.gz")


def documents(folder: Path) -> Iterator[tuple[str, Json]]:
    """(name, document) of every JSON file in a folder or of one file, by name.

    The name is the path below the folder without its ending. A file of lines gives each line, its
    number behind the name.

    Raises:
        FileNotFoundError: there is no such folder or file.
    """
    if not folder.exists():
        raise FileNotFoundError(f"{folder}: no such file or folder")
    files = [folder] if folder.is_file() else sorted(p for p in folder.rglob("*") if p.is_file())
    for file in files:
        ending = next((e for e in sorted(ENDINGS, key=len)[::-1] if file.name.endswith(e)), None)
        if ending is None:
            continue
        inner = file.name if folder.is_file() else file.relative_to(folder).as_posix()
        name = inner.removesuffix(ending)
        data = gzip.decompress(file.read_bytes()) if ending.endswith(".gz") else file.read_bytes()
        if "jsonl" not in ending:
            yield name, orjson.loads(data)
            continue
        for number, line in enumerate(data.splitlines()):
            if line.strip():
                yield f"{name}/{number}", orjson.loads(line)


def only(document: Json, keys: Collection[str]) -> dict[str, Json]:
    """The document with these keys alone; a bare list of messages as its `history`."""
    if isinstance(document, list):
        return {"history": document} if chat_logs.takes_list(document) else {}
    return (
        {k: document[k] for k in document.keys() & set(keys)} if isinstance(document, dict) else {}
    )


def trace_of(document: Mapping[str, Json]) -> Trace | None:
    """The run in a document, as the product reads it; None where there is none."""
    if not chat_logs.takes(document):
        return None
    records = [r for r in chat_logs.spans(document) if isinstance(r, RawSpan | RawNote)]
    return build_trace(records, CAP).trace if records else None
