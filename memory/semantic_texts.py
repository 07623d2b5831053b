"""What of a finding or a lesson is compared by meaning: what failed and why, never how often."""

from collections.abc import Sequence
from dataclasses import dataclass

from configs.redaction import redact
from configs.taxonomy import taxonomy
from contracts.findings import Finding
from contracts.gate import Lesson
from contracts.json_types import sha256_hex
from contracts.protocols import Embedder
from memory.vectors import Vector, VectorKind

MAX_CHARS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One finding or lesson as text."""

    kind: VectorKind
    id: str
    text: str
    """Masked."""

    @property
    def text_hash(self) -> str:
        """Another hash: the vector is stale."""
        return sha256_hex(self.text.encode("utf-8", "surrogatepass"))


def finding_document(finding: Finding) -> Document:
    """The text of a finding. Its counts are not in it: they change with every analysis."""
    said = f"{finding.title}. {_words(finding.diagnosis.cause)}. {finding.diagnosis.summary}"
    return Document(kind="finding", id=finding.id, text=_short(said))


def lesson_document(lesson: Lesson) -> Document:
    """The text of a lesson: the failure, its cause, what was tried, and a person's words on it."""
    parts = [title_of(lesson.signature), _words(lesson.cause), lesson.edit, lesson.reason or ""]
    return Document(kind="lesson", id=lesson.id, text=_short(". ".join(filter(None, parts))))


def embedded(documents: Sequence[Document], embedder: Embedder) -> list[Vector]:
    """A vector for each document, in order."""
    import numpy as np  # noqa: PLC0415  # a node that embeds nothing need not wait for it

    made = embedder.embed([document.text for document in documents])
    return [
        Vector(
            kind=document.kind, id=document.id, embedder=embedder.name,
            text_hash=document.text_hash, data=np.asarray(numbers, dtype="<f4").tobytes(),
        )
        for document, numbers in zip(documents, made, strict=True)
    ]  # fmt: skip


def title_of(signature: str) -> str:
    """The line for a person that belongs to a signature."""
    kind, _, rest = signature.partition("~")[0].partition(":")
    place, _, code = rest.partition(":")
    return taxonomy().title(kind, place, code)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _short(text: str) -> str:
    return redact(text)[:MAX_CHARS]
