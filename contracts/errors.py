"""The errors Tracemend raises, and who can fix each.

TracemendError
├── UsageError          the caller: a wrong argument, or input that cannot be read at all (exit 2)
│   └── ConfigError     the operator: a key of tracemend.yaml or of a playbook (exit 2)
├── ProjectMismatch     the caller: a thread belongs to another project (exit 2)
├── StaleBase           a person: the harness changed since the proposal was made (exit 3)
├── GateError           the operator: the gate could not be run to a verdict (exit 5)
├── ConnectorError      the outside: a source, a harness or a probe failed (exit 6)
│   ├── SourceError         traces could not be read
│   │   └── TracesLate          nobody: the traces of an alert are not all there yet
│   ├── LedgerError         the ledger's own disk or server: full, read-only, gone (exit 1)
│   └── ProbeError          the agent under test could not be started
├── PolicyRefused       the drafter: an edit breaks a rule (exit 7)
│   └── AnchorError         an anchor is empty, absent or not unique
├── ForeignChange       a person: a target holds bytes that are neither before nor after (exit 3)
└── LeaseLost           nobody: another process took over this thread or target (exit 1)
"""

from collections.abc import Sequence


class TracemendError(Exception):
    """Anything Tracemend refuses or cannot do; `str(error)` is one line for a person."""

    exit_code = 1


class UsageError(TracemendError):
    """What was asked cannot be done as asked; the message says what to do instead."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration value is wrong; the message starts with the file or the key's path."""


class ProjectMismatch(TracemendError):
    """A thread that belongs to one project was driven under another."""

    exit_code = 2


class StaleBase(TracemendError):
    """The harness is not what the proposal was made on.

    Attributes:
        changed: paths that differ from the base revision.
    """

    exit_code = 3

    def __init__(self, message: str, *, changed: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.changed = tuple(changed)


class GateError(TracemendError):
    """The gate itself failed. A broken gate is an error, never a pass."""

    exit_code = 5


class ConnectorError(TracemendError):
    """A call to an outside system failed after the connector's own retries.

    Attributes:
        backend: name the operator knows it by, such as "files" or "worker".
        operation: the protocol method that failed, such as "window".
        retryable: whether asking again later could help.
    """

    exit_code = 6

    def __init__(
        self, message: str, *, backend: str, operation: str, retryable: bool = False
    ) -> None:
        super().__init__(message)
        self.backend = backend
        self.operation = operation
        self.retryable = retryable


class SourceError(ConnectorError):
    """Traces could not be read, or only in part."""


class TracesLate(SourceError):
    """The window of an alert has no traces yet, or open ones; it is read again in a while.

    No failure: neither the run nor the source has it held against it.
    """


class LedgerError(ConnectorError):
    """The ledger could not be read or written. Nothing of the transaction was kept."""

    exit_code = 1


class ProbeError(ConnectorError):
    """The operator's agent could not be started or does not speak the worker protocol."""


class PolicyRefused(TracemendError):
    """An edit breaks a rule that no approval can lift; the message names the rule."""

    exit_code = 7


class AnchorError(PolicyRefused):
    """An anchor does not name exactly one place in its file."""


class ForeignChange(TracemendError):
    """Some file of a target is neither its before nor its after: somebody else wrote it.

    Attributes:
        paths: the foreign files; they were left as they are.
        switched: whether some file of ours had been switched (and put back) before this was seen.
    """

    exit_code = 3

    def __init__(self, message: str, *, paths: Sequence[str], switched: bool) -> None:
        super().__init__(message)
        self.paths = tuple(paths)
        self.switched = switched


class LeaseLost(TracemendError):
    """Another process holds the lease now; what this one was doing is continued there."""
