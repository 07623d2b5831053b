"""The ledger: what is true. One SQL database, opened for one project."""

from memory.alerts import Alerts
from memory.artifacts import Artifacts
from memory.audit import AuditLog
from memory.case_runs import CaseRuns
from memory.choices import Choices
from memory.circuits import Circuits
from memory.database import Clock, Database, Place, open_engine, utc_now
from memory.effects import Effects
from memory.gate_checks import GateChecks
from memory.gate_ledger import GateLedger
from memory.handoffs import Handoffs
from memory.incidents import Incidents, Steps
from memory.knowledge import Knowledge
from memory.leases import Leases
from memory.proposals import Proposals
from memory.protocol import ProtocolRows
from memory.reads import Reads
from memory.schedules import Schedules
from memory.sealed import SealedSet
from memory.spends import Spends
from memory.trail import Trail
from memory.vectors import Vectors


class Ledger:
    """All stores of one project over one database.

    Writes that belong together share a transaction: `with ledger.db.write() as tx`. A node writes
    through `steps.once`, so that running it again changes nothing.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self.audit = AuditLog(db)
        self.incidents = Incidents(db, self.audit)
        self.alerts = Alerts(db, self.audit)
        self.steps = Steps(db)
        self.reads = Reads(db)
        self.knowledge = Knowledge(db, self.audit)
        self.handoffs = Handoffs(db, self.audit)
        self.proposals = Proposals(db, self.audit)
        self.gate = GateLedger(db, self.audit)
        self.leases = Leases(db)
        self.effects = Effects(db, self.audit, self.leases)
        self.artifacts = Artifacts(db)
        self.trail = Trail(db, self.audit)
        self.circuits = Circuits(db, self.audit)
        self.schedules = Schedules(db)
        self.protocol = ProtocolRows(db)
        self.choices = Choices(db, self.audit)
        self.vectors = Vectors(db)
        self.spends = Spends(db)
        self.sealed = SealedSet(db, self.audit)
        self.case_runs = CaseRuns(db)
        self.gate_checks = GateChecks(db, self.audit)

    def close(self) -> None:
        """Give back the connections."""
        self.db.engine.dispose()


def open_ledger(place: Place, project: str, *, clock: Clock = utc_now) -> Ledger:
    """Open (or make) the ledger for one project.

    Raises:
        ConfigError: it is not a ledger of this release.
    """
    if not isinstance(place, str):
        place.parent.mkdir(parents=True, exist_ok=True)
    return Ledger(Database(open_engine(place), project=project, clock=clock))
