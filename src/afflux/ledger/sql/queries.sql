-- Every statement of the ledger, by name. A name, one line of what it does, the statement.
-- Many rows go in as one JSON text: that costs a tenth of an array for each column.

-- move_fence --
-- Makes this process the only one that may write.
SELECT afflux.move_fence(%(epoch)s::bigint, %(holder)s::text);

-- wait_no_longer_than --
-- For somebody who holds the fence, in this transaction.
SELECT set_config('lock_timeout', %(milliseconds)s::text, true);

-- end_holders --
-- Ends the sessions of those who hold the fence: one that sleeps in the middle of a turn never lets go.
SELECT pg_terminate_backend(pid)
FROM pg_locks
WHERE
    relation = 'afflux.fence'::regclass AND mode = 'RowExclusiveLock' AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND pid <> pg_backend_pid();

-- pass_fence --
-- Lets a turn pass, or fails; those who watch, or want to take over, hear of it when it is written.
SELECT
    afflux.pass_fence(%(epoch)s::bigint, %(holder)s::text, %(turn)s::bigint),
    CASE WHEN %(message)s::text <> '' THEN pg_notify('afflux', %(message)s::text) END;

-- record_finished --
-- Groups that have left go into history, with their pods.
INSERT INTO afflux.finished_groups (
    namespace, name, queue, size, priority, created_seconds, ready_seconds, run_seconds,
    started_seconds, until_seconds, ended_seconds, how, reason, pods, machines
)
SELECT
    namespace, name, queue, size, priority, created_seconds, ready_seconds, run_seconds,
    started_seconds, until_seconds, ended_seconds, how, reason, pods, machines
FROM json_to_recordset(%(rows)s::json) AS gone (
    namespace text, name text, queue text, size integer, priority bigint, created_seconds float8,
    ready_seconds float8, run_seconds float8, started_seconds float8, until_seconds float8,
    ended_seconds float8, how text, reason text, pods text[], machines text[]
);

-- forget --
-- Nothing else is left of groups that have left; their names are free.
WITH gone AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s::json) AS g (namespace text, name text)
), promises AS (
    DELETE FROM afflux.reservations
    USING gone
    WHERE reservations.namespace = gone.namespace AND reservations.name = gone.name
)
DELETE FROM afflux.groups
USING gone
WHERE groups.namespace = gone.namespace AND groups.name = gone.name;

-- put_provisional --
-- Groups without all their members, as they stand now, and in no other table.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s::json) AS g (
        namespace text, name text, state text, queue text, size integer, priority bigint,
        created_seconds float8, ready_seconds float8, run_seconds float8, started_seconds float8,
        until_seconds float8, reason text, members json
    )
), from_queue AS (
    DELETE FROM afflux.queue AS other
    USING given
    WHERE other.namespace = given.namespace AND other.name = given.name
), from_running AS (
    DELETE FROM afflux.running_groups AS other
    USING given
    WHERE other.namespace = given.namespace AND other.name = given.name
)
INSERT INTO afflux.provisional_groups (
    namespace, name, state, queue, size, priority, created_seconds, ready_seconds, run_seconds,
    started_seconds, until_seconds, reason, members, epoch
)
SELECT given.*, %(epoch)s::bigint FROM given
ON CONFLICT (namespace, name) DO UPDATE SET
    state = excluded.state, queue = excluded.queue, size = excluded.size,
    priority = excluded.priority, created_seconds = excluded.created_seconds,
    ready_seconds = excluded.ready_seconds, run_seconds = excluded.run_seconds,
    started_seconds = excluded.started_seconds, until_seconds = excluded.until_seconds,
    reason = excluded.reason, members = excluded.members, epoch = excluded.epoch;

-- put_queue --
-- Groups that wait, as they stand now, and in no other table.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s::json) AS g (
        namespace text, name text, state text, queue text, size integer, priority bigint,
        created_seconds float8, ready_seconds float8, run_seconds float8, started_seconds float8,
        until_seconds float8, reason text, members json
    )
), from_provisional AS (
    DELETE FROM afflux.provisional_groups AS other
    USING given
    WHERE other.namespace = given.namespace AND other.name = given.name
), from_running AS (
    DELETE FROM afflux.running_groups AS other
    USING given
    WHERE other.namespace = given.namespace AND other.name = given.name
)
INSERT INTO afflux.queue (
    namespace, name, state, queue, size, priority, created_seconds, ready_seconds, run_seconds,
    started_seconds, until_seconds, reason, members, epoch
)
SELECT given.*, %(epoch)s::bigint FROM given
ON CONFLICT (namespace, name) DO UPDATE SET
    state = excluded.state, queue = excluded.queue, size = excluded.size,
    priority = excluded.priority, created_seconds = excluded.created_seconds,
    ready_seconds = excluded.ready_seconds, run_seconds = excluded.run_seconds,
    started_seconds = excluded.started_seconds, until_seconds = excluded.until_seconds,
    reason = excluded.reason, members = excluded.members, epoch = excluded.epoch;

-- put_running --
-- Groups that run or are being bound, as they stand now, and in no other table.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s::json) AS g (
        namespace text, name text, state text, queue text, size integer, priority bigint,
        created_seconds float8, ready_seconds float8, run_seconds float8, started_seconds float8,
        until_seconds float8, reason text, members json
    )
), from_provisional AS (
    DELETE FROM afflux.provisional_groups AS other
    USING given
    WHERE other.namespace = given.namespace AND other.name = given.name
), from_queue AS (
    DELETE FROM afflux.queue AS other
    USING given
    WHERE other.namespace = given.namespace AND other.name = given.name
)
INSERT INTO afflux.running_groups (
    namespace, name, state, queue, size, priority, created_seconds, ready_seconds, run_seconds,
    started_seconds, until_seconds, reason, members, epoch
)
SELECT given.*, %(epoch)s::bigint FROM given
ON CONFLICT (namespace, name) DO UPDATE SET
    state = excluded.state, queue = excluded.queue, size = excluded.size,
    priority = excluded.priority, created_seconds = excluded.created_seconds,
    ready_seconds = excluded.ready_seconds, run_seconds = excluded.run_seconds,
    started_seconds = excluded.started_seconds, until_seconds = excluded.until_seconds,
    reason = excluded.reason, members = excluded.members, epoch = excluded.epoch;

-- drop_promises --
-- Promises that hold no longer.
DELETE FROM afflux.reservations
WHERE NOT EXISTS (
    SELECT FROM json_to_recordset(%(rows)s::json) AS held (namespace text, name text)
    WHERE held.namespace = reservations.namespace AND held.name = reservations.name
);

-- put_promises --
-- Promises that hold, with their witnesses; one that is as it was keeps its date.
INSERT INTO afflux.reservations (namespace, name, start_seconds, uids, machines)
SELECT namespace, name, start_seconds, uids, machines
FROM json_to_recordset(%(rows)s::json)
    AS held (namespace text, name text, start_seconds float8, uids text[], machines text[])
ON CONFLICT (namespace, name) DO UPDATE SET
    start_seconds = excluded.start_seconds, uids = excluded.uids, machines = excluded.machines,
    promised_at = excluded.promised_at
WHERE
    reservations.start_seconds IS DISTINCT FROM excluded.start_seconds
    OR reservations.uids <> excluded.uids OR reservations.machines <> excluded.machines;

-- record_events --
-- What happened, in words.
INSERT INTO afflux.events (epoch, namespace, name, kind, message)
SELECT %(epoch)s::bigint, namespace, name, kind, message
FROM json_to_recordset(%(rows)s::json)
    AS event (namespace text, name text, kind text, message text);

-- notify --
-- Wakes those who watch, when the transaction ends.
SELECT pg_notify('afflux', %(message)s::text);

-- forget_history --
-- Groups that have been over for so many days, the oldest first; not those that somebody holds.
DELETE FROM afflux.finished_groups
WHERE id = ANY (ARRAY(
    SELECT id FROM afflux.finished_groups
    WHERE ended_seconds < extract(epoch FROM now())::float8 - 86400.0 * %(days)s::integer
    ORDER BY ended_seconds
    LIMIT %(most)s::integer
    FOR UPDATE SKIP LOCKED
));

-- forget_events --
-- Words that are so many days old, the oldest first; not those that somebody holds.
DELETE FROM afflux.events
WHERE id = ANY (ARRAY(
    SELECT id FROM afflux.events
    WHERE at < now() - make_interval(days => %(days)s::integer)
    ORDER BY at
    LIMIT %(most)s::integer
    FOR UPDATE SKIP LOCKED
));

-- recover_groups --
-- Every group that is there, in queue order.
SELECT
    namespace, name, state, queue, size, priority, created_seconds, ready_seconds, run_seconds,
    started_seconds, until_seconds, reason, members, epoch
FROM afflux.groups
ORDER BY priority DESC, ready_seconds, namespace, name;

-- recover_promises --
-- What they were promised.
SELECT namespace, name, start_seconds, uids, machines
FROM afflux.reservations
ORDER BY start_seconds, namespace, name;

-- settle_in --
-- If we are gone, the fence must not stay held; and rows are found by key, even in small tables.
SELECT
    -- The database may be shared: a function or an operator of others in `public`, if it fits better
    -- than PostgreSQL's own, would be called with our rights.
    set_config('search_path', '', false),
    -- A server that has not seen the end of a turn is not idle to itself: that counts only after a
    -- BEGIN. A connection that is gone in the middle of a turn is noticed by TCP, within 25 s.
    set_config('idle_in_transaction_session_timeout', %(milliseconds)s::text, false),
    set_config('tcp_keepalives_idle', '10', false),
    set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '3', false),
    set_config('enable_seqscan', 'off', false),
    set_config('enable_hashjoin', 'off', false),
    set_config('enable_mergejoin', 'off', false),
    -- Before PostgreSQL 18 what is off costs so much that a plan which needs it all the same, as that
    -- of the fence does, would be compiled in every turn.
    set_config('jit', 'off', false);

-- lock_schema --
-- One process at a time looks at the schema and changes it; until the transaction ends.
SELECT pg_advisory_xact_lock(%(key)s::bigint);

-- has_migrations --
-- Whether this database has been used before.
SELECT to_regclass('afflux.migrations') IS NOT NULL;

-- create_schema --
-- Everything of ours is in a schema of its own: the database may be shared.
CREATE SCHEMA IF NOT EXISTS afflux;

-- begin_migrations --
-- The list of steps that the schema has taken.
CREATE TABLE afflux.migrations (
    name       text PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- applied_migrations --
-- The steps that the schema has taken.
SELECT name FROM afflux.migrations ORDER BY name;

-- record_migration --
-- One step more.
INSERT INTO afflux.migrations (name) VALUES (%(name)s::text);
