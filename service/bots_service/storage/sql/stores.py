"""All that is kept in one database."""

from bots_service.records import Capacity
from bots_service.storage.sql.answers import SqlAnswers
from bots_service.storage.sql.database import Database
from bots_service.storage.sql.datasets import SqlDatasets
from bots_service.storage.sql.health import SqlHealth
from bots_service.storage.sql.history import SqlHistory
from bots_service.storage.sql.journal import SqlJournal, SqlSnapshots
from bots_service.storage.sql.keys import SqlKeys
from bots_service.storage.sql.retention import SqlRetention
from bots_service.storage.sql.runs import SqlRuns
from bots_service.storage.sql.transfer import SqlTransfers


class SqlStores:
    """The tables, by what they hold; `database` runs transactions over several."""

    def __init__(self, database: Database, capacity: Capacity | None = None) -> None:
        """Keep all in a database. capacity: limits on the amount of data."""
        self.database = database
        self.answers = SqlAnswers(database)
        self.datasets = SqlDatasets(database, capacity)
        self.runs = SqlRuns(database, capacity)
        self.journal = SqlJournal(database)
        self.history = SqlHistory(database)
        self.snapshots = SqlSnapshots(database)
        self.keys = SqlKeys(database)
        self.retention = SqlRetention(database)
        self.transfers = SqlTransfers(database, capacity)
        self.health = SqlHealth(database)
