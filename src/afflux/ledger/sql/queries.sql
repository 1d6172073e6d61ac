-- Every statement of the ledger: its name, one line about what it does, the statement.
-- Many rows are passed as one JSON text, at a tenth of the cost of an array for each column.

-- move_fence --
-- Makes this process the only writer.
SELECT afflux.take_fence(%(epoch)s::bigint, %(holder)s::text);

-- set_lock_timeout --
-- Limits the wait for a leader that has locked the fence, in this transaction.
SELECT set_config('lock_timeout', %(milliseconds)s::text, true);

-- terminate_fence_holders --
-- Ends sessions that have locked the fence: a leader suspended during a batch would never release it.
SELECT pg_terminate_backend(pid)
FROM pg_locks
WHERE
    relation = 'afflux.fence'::regclass AND mode = 'RowExclusiveLock' AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND pid <> pg_backend_pid();

-- pass_fence --
-- Fails unless this process is the leader and the batch is new; notifies listeners after the commit.
SELECT
    afflux.pass_fence(%(epoch)s::bigint, %(holder)s::text, %(batch)s::bigint),
    CASE WHEN %(message)s::text <> '' THEN pg_notify('afflux', %(message)s::text) END;

-- insert_finished_groups --
-- Adds ended groups with their pods to the history.
INSERT INTO afflux.finished_groups (
    key, namespace, name, alone, queue, size, priority, created_seconds, ready_seconds, run_seconds,
    started_seconds, until_seconds, ended_seconds, how, reason, unlisted, pods,
    machines, hows
)
SELECT
    key, namespace, name, alone, queue, size, priority, created_seconds, ready_seconds, run_seconds,
    started_seconds, until_seconds, ended_seconds, how, reason, unlisted, pods,
    machines, hows
FROM json_to_recordset(%(rows)s::json) AS ended (
    key text, namespace text, name text, alone text, queue text, size integer, priority bigint,
    created_seconds float8, ready_seconds float8, run_seconds float8, started_seconds float8,
    until_seconds float8, ended_seconds float8, how text, reason text, unlisted integer,
    pods text[], machines text[], hows text[]
);

-- delete_groups --
-- Deletes ended groups and their reservations.
WITH ended AS MATERIALIZED (
    SELECT key FROM json_to_recordset(%(rows)s::json) AS g (key text)
), ended_reservations AS (
    DELETE FROM afflux.reservations
    USING ended
    WHERE reservations.group_key = ended.key
)
DELETE FROM afflux.groups
USING ended
WHERE groups.key = ended.key;

-- delete_member_chunks --
-- Deletes the further members of ended groups.
DELETE FROM afflux.member_chunks
USING json_to_recordset(%(rows)s::json) AS ended (key text)
WHERE member_chunks.key = ended.key;

-- put_provisional --
-- Upserts groups that lack members or are refused, and deletes them from the other tables.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s::json) AS g (
        key text, namespace text, name text, born text, alone text, state text, queue text,
        size integer, priority bigint, created_seconds float8, ready_seconds float8,
        run_seconds float8, started_seconds float8, until_seconds float8, peak_bound integer,
        may_have_been_whole boolean, waiting integer, late_since_seconds float8, unlisted integer,
        reason text, present integer, members json
    )
), from_queue AS (
    DELETE FROM afflux.queue AS other
    USING given
    WHERE other.key = given.key
), from_running AS (
    DELETE FROM afflux.running_groups AS other
    USING given
    WHERE other.key = given.key
)
INSERT INTO afflux.provisional_groups (
    key, namespace, name, born, alone, state, queue, size, priority, created_seconds, ready_seconds,
    run_seconds, started_seconds, until_seconds, peak_bound, may_have_been_whole, waiting,
    late_since_seconds, unlisted, reason, present, members, epoch
)
SELECT given.*, %(epoch)s::bigint FROM given
ON CONFLICT (key) DO UPDATE SET
    state = excluded.state, queue = excluded.queue, size = excluded.size,
    priority = excluded.priority, created_seconds = excluded.created_seconds,
    ready_seconds = excluded.ready_seconds, run_seconds = excluded.run_seconds,
    started_seconds = excluded.started_seconds, until_seconds = excluded.until_seconds,
    peak_bound = excluded.peak_bound, may_have_been_whole = excluded.may_have_been_whole,
    waiting = excluded.waiting, late_since_seconds = excluded.late_since_seconds,
    unlisted = excluded.unlisted, reason = excluded.reason, present = excluded.present, members = excluded.members, epoch = excluded.epoch;

-- put_queue --
-- Upserts groups that wait in the queue, and deletes them from the other tables.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s::json) AS g (
        key text, namespace text, name text, born text, alone text, state text, queue text,
        size integer, priority bigint, created_seconds float8, ready_seconds float8,
        run_seconds float8, started_seconds float8, until_seconds float8, peak_bound integer,
        may_have_been_whole boolean, waiting integer, late_since_seconds float8, unlisted integer,
        reason text, present integer, members json
    )
), from_provisional AS (
    DELETE FROM afflux.provisional_groups AS other
    USING given
    WHERE other.key = given.key
), from_running AS (
    DELETE FROM afflux.running_groups AS other
    USING given
    WHERE other.key = given.key
)
INSERT INTO afflux.queue (
    key, namespace, name, born, alone, state, queue, size, priority, created_seconds, ready_seconds,
    run_seconds, started_seconds, until_seconds, peak_bound, may_have_been_whole, waiting,
    late_since_seconds, unlisted, reason, present, members, epoch
)
SELECT given.*, %(epoch)s::bigint FROM given
ON CONFLICT (key) DO UPDATE SET
    state = excluded.state, queue = excluded.queue, size = excluded.size,
    priority = excluded.priority, created_seconds = excluded.created_seconds,
    ready_seconds = excluded.ready_seconds, run_seconds = excluded.run_seconds,
    started_seconds = excluded.started_seconds, until_seconds = excluded.until_seconds,
    peak_bound = excluded.peak_bound, may_have_been_whole = excluded.may_have_been_whole,
    waiting = excluded.waiting, late_since_seconds = excluded.late_since_seconds,
    unlisted = excluded.unlisted, reason = excluded.reason, present = excluded.present, members = excluded.members, epoch = excluded.epoch;

-- put_running --
-- Upserts groups that run or are being bound, and deletes them from the other tables.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(%(rows)s::json) AS g (
        key text, namespace text, name text, born text, alone text, state text, queue text,
        size integer, priority bigint, created_seconds float8, ready_seconds float8,
        run_seconds float8, started_seconds float8, until_seconds float8, peak_bound integer,
        may_have_been_whole boolean, waiting integer, late_since_seconds float8, unlisted integer,
        reason text, present integer, members json
    )
), from_provisional AS (
    DELETE FROM afflux.provisional_groups AS other
    USING given
    WHERE other.key = given.key
), from_queue AS (
    DELETE FROM afflux.queue AS other
    USING given
    WHERE other.key = given.key
)
INSERT INTO afflux.running_groups (
    key, namespace, name, born, alone, state, queue, size, priority, created_seconds, ready_seconds,
    run_seconds, started_seconds, until_seconds, peak_bound, may_have_been_whole, waiting,
    late_since_seconds, unlisted, reason, present, members, epoch
)
SELECT given.*, %(epoch)s::bigint FROM given
ON CONFLICT (key) DO UPDATE SET
    state = excluded.state, queue = excluded.queue, size = excluded.size,
    priority = excluded.priority, created_seconds = excluded.created_seconds,
    ready_seconds = excluded.ready_seconds, run_seconds = excluded.run_seconds,
    started_seconds = excluded.started_seconds, until_seconds = excluded.until_seconds,
    peak_bound = excluded.peak_bound, may_have_been_whole = excluded.may_have_been_whole,
    waiting = excluded.waiting, late_since_seconds = excluded.late_since_seconds,
    unlisted = excluded.unlisted, reason = excluded.reason, present = excluded.present, members = excluded.members, epoch = excluded.epoch;

-- put_member_chunks --
-- Upserts members of groups that have more than fit into the row of the group.
INSERT INTO afflux.member_chunks (key, chunk, members)
SELECT key, chunk, members
FROM json_to_recordset(%(rows)s::json) AS given (key text, chunk integer, members json)
ON CONFLICT (key, chunk) DO UPDATE SET members = excluded.members;

-- delete_other_reservations --
-- Deletes all reservations but these.
DELETE FROM afflux.reservations
WHERE NOT EXISTS (
    SELECT FROM json_to_recordset(%(rows)s::json) AS kept (start_key text)
    WHERE kept.start_key = reservations.start_key
);

-- put_reservations --
-- Upserts reservations with their witnesses; an unchanged one keeps its promised_at.
INSERT INTO afflux.reservations (start_key, group_key, start_seconds, uids, machines)
SELECT start_key, group_key, start_seconds, uids, machines
FROM json_to_recordset(%(rows)s::json) AS current (
    start_key text, group_key text, start_seconds float8, uids text[], machines text[]
)
ON CONFLICT (start_key) DO UPDATE SET
    group_key = excluded.group_key, start_seconds = excluded.start_seconds, uids = excluded.uids,
    machines = excluded.machines, promised_at = excluded.promised_at
WHERE
    reservations.start_seconds IS DISTINCT FROM excluded.start_seconds
    OR reservations.group_key <> excluded.group_key
    OR reservations.uids <> excluded.uids OR reservations.machines <> excluded.machines;

-- insert_events --
-- Adds events of groups.
INSERT INTO afflux.events (epoch, key, kind, message)
SELECT %(epoch)s::bigint, key, kind, message
FROM json_to_recordset(%(rows)s::json) AS event (key text, kind text, message text);

-- notify --
-- Notifies listeners when the transaction commits.
SELECT pg_notify('afflux', %(message)s::text);

-- delete_old_history --
-- Deletes groups that ended so many days ago, the oldest first; skips rows that others have locked.
DELETE FROM afflux.finished_groups
WHERE id = ANY (ARRAY(
    SELECT id FROM afflux.finished_groups
    WHERE ended_seconds < extract(epoch FROM now())::float8 - 86400.0 * %(days)s::integer
    ORDER BY ended_seconds
    LIMIT %(limit)s::integer
    FOR UPDATE SKIP LOCKED
));

-- delete_old_events --
-- Deletes events of so many days ago, the oldest first; skips rows that others have locked.
DELETE FROM afflux.events
WHERE id = ANY (ARRAY(
    SELECT id FROM afflux.events
    WHERE at < now() - make_interval(days => %(days)s::integer)
    ORDER BY at
    LIMIT %(limit)s::integer
    FOR UPDATE SKIP LOCKED
));

-- recover_groups --
-- All groups that have not ended, in queue order.
SELECT
    key, namespace, name, born, alone, state, queue, size, priority, created_seconds, ready_seconds,
    run_seconds, started_seconds, until_seconds, peak_bound, may_have_been_whole, waiting,
    late_since_seconds, unlisted, reason, members, epoch
FROM afflux.groups
ORDER BY priority DESC, ready_seconds, key;

-- recover_member_chunks --
-- The further members of large groups.
SELECT key, members
FROM afflux.member_chunks
ORDER BY key, chunk;

-- recover_reservations --
-- All reservations with their witnesses.
SELECT group_key, start_key, start_seconds, uids, machines
FROM afflux.reservations
ORDER BY start_seconds, start_key;

-- set_session_options --
-- Frees the fence soon after a lost connection, and finds rows by key even in small tables.
SELECT
    -- The database may be shared. A better matching function or operator in `public` would be called
    -- instead of PostgreSQL's own, with our rights.
    set_config('search_path', '', false),
    -- Applies only after a BEGIN. A batch has none: if the connection is lost during a batch, TCP
    -- notices it within 25 s.
    set_config('idle_in_transaction_session_timeout', %(milliseconds)s::text, false),
    set_config('tcp_keepalives_idle', '10', false),
    set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '3', false),
    set_config('enable_seqscan', 'off', false),
    set_config('enable_hashjoin', 'off', false),
    set_config('enable_mergejoin', 'off', false),
    -- Before PostgreSQL 18 a disabled scan adds so much to the cost of a plan that needs it, such as
    -- that of the fence, that the plan would be compiled in every batch.
    set_config('jit', 'off', false);

-- lock_schema --
-- Locks the schema against other migrating processes until the transaction ends.
SELECT pg_advisory_xact_lock(%(key)s::bigint);

-- has_migrations --
-- Whether this database has a ledger.
SELECT to_regclass('afflux.migrations') IS NOT NULL;

-- create_schema --
-- The ledger has a schema of its own: the database may be shared.
CREATE SCHEMA IF NOT EXISTS afflux;

-- create_migrations_table --
-- The list of migrations that were applied.
CREATE TABLE afflux.migrations (
    name       text PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- applied_migrations --
-- The migrations that were applied.
SELECT name FROM afflux.migrations ORDER BY name;

-- record_migration --
-- Adds a migration to the list.
INSERT INTO afflux.migrations (name) VALUES (%(name)s::text);
