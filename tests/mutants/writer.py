"""`python -m tests.mutants.writer`: the writer's protections, and the tests that hold each."""

from tests.mutants.event_lines import EVENT_LINES
from tests.mutants.machine import run
from tests.mutants.refused import REFUSED_KILLED, REFUSED_WRITER
from tests.mutants.writer_databases import DATABASES
from tests.mutants.writer_driver import DRIVER
from tests.mutants.writer_growth import BYTES, EMPTY, GROWTH, OUTAGES
from tests.mutants.writer_holds import HALTS, HOLDS
from tests.mutants.writer_kafka import CUTS, LOGS
from tests.mutants.writer_lag import LAG, LAG_ON_KAFKA
from tests.mutants.writer_lethal import KILLS, LETHAL
from tests.mutants.writer_limits import LIMITS, SLOW
from tests.mutants.writer_parked import PARKED
from tests.mutants.writer_read import KAFKA_READ, READ
from tests.mutants.writer_records import FOREIGNERS, RECORDS
from tests.mutants.writer_replays import REHEARSALS, REPLAYS, REPLAYS_KILLED
from tests.mutants.writer_seen import SEEN, SEEN_ON_KAFKA
from tests.mutants.writer_standby import STANDBY
from tests.mutants.writer_tables import TABLES
from tests.mutants.writer_tasks import TASKS
from tests.mutants.writer_trials import TRIALS, TRIALS_ON_KAFKA

QUICK = (
    *TASKS,
    *READ,
    *RECORDS,
    *TABLES,
    *LIMITS,
    *HOLDS,
    *GROWTH,
    *EMPTY,
    *CUTS,
    *LETHAL,
    *LAG,
    *SEEN,
    *EVENT_LINES,
    *REPLAYS,
    *REHEARSALS,
    *REFUSED_WRITER,
    *TRIALS,
)
SLOWER = (
    *DRIVER,
    *KAFKA_READ,
    *BYTES,
    *OUTAGES,
    *DATABASES,
    *SLOW,
    *HALTS,
    *FOREIGNERS,
    *LOGS,
    *STANDBY,
    *KILLS,
    *LAG_ON_KAFKA,
    *REPLAYS_KILLED,
    *REFUSED_KILLED,
    *SEEN_ON_KAFKA,
    *PARKED,
    *TRIALS_ON_KAFKA,
)

if __name__ == "__main__":
    run("services/writer", QUICK, SLOWER)
