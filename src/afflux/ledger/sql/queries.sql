-- Every statement of the ledger, by name. A name, one line of what it does, the statement.
-- Many rows go in as columns: one array each, of the same length.

-- move_fence --
-- Makes this process the only one that may write.
SELECT afflux.move_fence(%(epoch)s::bigint, %(holder)s::text);

-- pass_fence --
-- Lets a turn pass, or fails; whoever wants to take over waits until it is written.
SELECT afflux.pass_fence(%(epoch)s::bigint, %(holder)s::text, %(turn)s::bigint);

-- settle --
-- Intents that have come true, or to nothing.
DELETE FROM afflux.intents
WHERE uid = ANY (%(uids)s::text[]);

-- settle_unknown --
-- Intents of which nobody knows what became of them: they stay until the pods have been read back.
UPDATE afflux.intents SET state = 'unknown', reason = given.reason
FROM unnest(%(uids)s::text[], %(reasons)s::text[]) AS given (uid, reason)
WHERE intents.uid = given.uid;

-- record_finished --
-- Groups that have left go into history, with their pods.
WITH their_pods AS (
    SELECT number, array_agg(pod ORDER BY place) AS pods, array_agg(machine ORDER BY place) AS machines
    FROM unnest(%(pod_groups)s::bigint[], %(pods)s::text[], %(machines)s::text[])
        WITH ORDINALITY AS pod (number, pod, machine, place)
    GROUP BY number
)
INSERT INTO afflux.finished_groups (
    namespace, name, queue, size, priority, created_seconds, ready_seconds, run_seconds,
    started_seconds, until_seconds, ended_seconds, how, reason, pods, machines
)
SELECT
    namespace, name, queue, size, priority, created_seconds, ready_seconds, run_seconds,
    started_seconds, until_seconds, ended_seconds, how, reason,
    coalesce(pods, '{}'), coalesce(machines, '{}')
FROM unnest(
    %(namespaces)s::text[], %(names)s::text[], %(queues)s::text[], %(sizes)s::integer[],
    %(priorities)s::bigint[], %(created)s::float8[], %(ready)s::float8[], %(run)s::float8[],
    %(started)s::float8[], %(until)s::float8[], %(ended)s::float8[], %(hows)s::text[],
    %(reasons)s::text[]
) WITH ORDINALITY AS gone (
    namespace, name, queue, size, priority, created_seconds, ready_seconds, run_seconds,
    started_seconds, until_seconds, ended_seconds, how, reason, number
)
LEFT JOIN their_pods USING (number)
ORDER BY number;

-- forget_groups --
-- Groups that have left are in no other table any more; their names are free.
DELETE FROM afflux.groups
USING unnest(%(namespaces)s::text[], %(names)s::text[]) AS gone (namespace, name)
WHERE groups.namespace = gone.namespace AND groups.name = gone.name;

-- forget_pods --
-- Nor are their pods.
DELETE FROM afflux.pods
USING unnest(%(namespaces)s::text[], %(names)s::text[]) AS gone (namespace, name)
WHERE pods.namespace = gone.namespace AND pods.group_name = gone.name;

-- forget_promises --
-- Nor what they were promised.
DELETE FROM afflux.reservations
USING unnest(%(namespaces)s::text[], %(names)s::text[]) AS gone (namespace, name)
WHERE reservations.namespace = gone.namespace AND reservations.name = gone.name;

-- forget_intents --
-- Nor what was intended with them.
DELETE FROM afflux.intents
USING unnest(%(namespaces)s::text[], %(names)s::text[]) AS gone (namespace, name)
WHERE intents.namespace = gone.namespace AND intents.group_name = gone.name;

-- move_groups --
-- Takes groups out of the table where they were, if they now belong into another.
DELETE FROM afflux.groups
USING unnest(%(namespaces)s::text[], %(names)s::text[], %(tables)s::text[])
    AS moved (namespace, name, belongs)
WHERE
    groups.namespace = moved.namespace AND groups.name = moved.name
    AND groups.tableoid <> moved.belongs::regclass;

-- put_provisional --
-- Groups without all their members, as they stand now.
INSERT INTO afflux.provisional_groups (
    namespace, name, state, queue, size, priority, created_seconds, ready_seconds, run_seconds,
    started_seconds, until_seconds, reason
)
SELECT * FROM unnest(
    %(namespaces)s::text[], %(names)s::text[], %(states)s::text[], %(queues)s::text[],
    %(sizes)s::integer[], %(priorities)s::bigint[], %(created)s::float8[], %(ready)s::float8[],
    %(run)s::float8[], %(started)s::float8[], %(until)s::float8[], %(reasons)s::text[]
)
ON CONFLICT (namespace, name) DO UPDATE SET
    state = excluded.state, queue = excluded.queue, size = excluded.size,
    priority = excluded.priority, created_seconds = excluded.created_seconds,
    ready_seconds = excluded.ready_seconds, run_seconds = excluded.run_seconds,
    started_seconds = excluded.started_seconds, until_seconds = excluded.until_seconds,
    reason = excluded.reason;

-- put_queue --
-- Groups that wait, as they stand now.
INSERT INTO afflux.queue (
    namespace, name, state, queue, size, priority, created_seconds, ready_seconds, run_seconds,
    started_seconds, until_seconds, reason
)
SELECT * FROM unnest(
    %(namespaces)s::text[], %(names)s::text[], %(states)s::text[], %(queues)s::text[],
    %(sizes)s::integer[], %(priorities)s::bigint[], %(created)s::float8[], %(ready)s::float8[],
    %(run)s::float8[], %(started)s::float8[], %(until)s::float8[], %(reasons)s::text[]
)
ON CONFLICT (namespace, name) DO UPDATE SET
    state = excluded.state, queue = excluded.queue, size = excluded.size,
    priority = excluded.priority, created_seconds = excluded.created_seconds,
    ready_seconds = excluded.ready_seconds, run_seconds = excluded.run_seconds,
    started_seconds = excluded.started_seconds, until_seconds = excluded.until_seconds,
    reason = excluded.reason;

-- put_running --
-- Groups that run, as they stand now.
INSERT INTO afflux.running_groups (
    namespace, name, state, queue, size, priority, created_seconds, ready_seconds, run_seconds,
    started_seconds, until_seconds, reason
)
SELECT * FROM unnest(
    %(namespaces)s::text[], %(names)s::text[], %(states)s::text[], %(queues)s::text[],
    %(sizes)s::integer[], %(priorities)s::bigint[], %(created)s::float8[], %(ready)s::float8[],
    %(run)s::float8[], %(started)s::float8[], %(until)s::float8[], %(reasons)s::text[]
)
ON CONFLICT (namespace, name) DO UPDATE SET
    state = excluded.state, queue = excluded.queue, size = excluded.size,
    priority = excluded.priority, created_seconds = excluded.created_seconds,
    ready_seconds = excluded.ready_seconds, run_seconds = excluded.run_seconds,
    started_seconds = excluded.started_seconds, until_seconds = excluded.until_seconds,
    reason = excluded.reason;

-- drop_pods --
-- Pods that are no longer members of these groups.
DELETE FROM afflux.pods
USING unnest(%(namespaces)s::text[], %(names)s::text[]) AS changed (namespace, name)
WHERE
    pods.namespace = changed.namespace AND pods.group_name = changed.name
    AND NOT EXISTS (SELECT FROM unnest(%(uids)s::text[]) AS member (uid) WHERE member.uid = pods.uid);

-- put_pods --
-- The members of groups, each pod once.
INSERT INTO afflux.pods (uid, namespace, name, group_name, machine)
SELECT * FROM unnest(
    %(uids)s::text[], %(namespaces)s::text[], %(names)s::text[], %(groups)s::text[],
    %(machines)s::text[]
)
ON CONFLICT (uid) DO UPDATE SET
    namespace = excluded.namespace, name = excluded.name, group_name = excluded.group_name,
    machine = excluded.machine;

-- place_pods --
-- Pods that have been bound.
UPDATE afflux.pods SET machine = bound.machine
FROM unnest(%(uids)s::text[], %(machines)s::text[]) AS bound (uid, machine)
WHERE pods.uid = bound.uid;

-- drop_promises --
-- Promises that hold no longer.
DELETE FROM afflux.reservations
WHERE NOT EXISTS (
    SELECT FROM unnest(%(namespaces)s::text[], %(names)s::text[]) AS held (namespace, name)
    WHERE held.namespace = reservations.namespace AND held.name = reservations.name
);

-- put_promises --
-- Promises that hold, with their witnesses; one that is as it was keeps its date.
WITH witness AS (
    SELECT number, array_agg(uid ORDER BY place) AS uids, array_agg(machine ORDER BY place) AS machines
    FROM unnest(%(member_of)s::bigint[], %(uids)s::text[], %(machines)s::text[])
        WITH ORDINALITY AS member (number, uid, machine, place)
    GROUP BY number
)
INSERT INTO afflux.reservations (namespace, name, start_seconds, uids, machines)
SELECT namespace, name, start_seconds, coalesce(uids, '{}'), coalesce(machines, '{}')
FROM unnest(%(namespaces)s::text[], %(names)s::text[], %(starts)s::float8[])
    WITH ORDINALITY AS held (namespace, name, start_seconds, number)
LEFT JOIN witness USING (number)
ON CONFLICT (namespace, name) DO UPDATE SET
    start_seconds = excluded.start_seconds, uids = excluded.uids, machines = excluded.machines,
    promised_at = excluded.promised_at
WHERE
    reservations.start_seconds IS DISTINCT FROM excluded.start_seconds
    OR reservations.uids <> excluded.uids OR reservations.machines <> excluded.machines;

-- put_intents --
-- What is about to be bound, and under which epoch.
INSERT INTO afflux.intents (uid, namespace, pod, group_name, machine, epoch)
SELECT uid, namespace, pod, group_name, machine, %(epoch)s::bigint
FROM unnest(
    %(uids)s::text[], %(namespaces)s::text[], %(pods)s::text[], %(groups)s::text[],
    %(machines)s::text[]
) AS intent (uid, namespace, pod, group_name, machine)
ON CONFLICT (uid) DO UPDATE SET
    namespace = excluded.namespace, pod = excluded.pod, group_name = excluded.group_name,
    machine = excluded.machine, epoch = excluded.epoch, state = 'open', reason = '',
    written_at = excluded.written_at;

-- record_events --
-- What happened, in words.
INSERT INTO afflux.events (epoch, namespace, name, kind, message)
SELECT %(epoch)s::bigint, namespace, name, kind, message
FROM unnest(%(namespaces)s::text[], %(names)s::text[], %(kinds)s::text[], %(messages)s::text[])
    AS event (namespace, name, kind, message);

-- notify --
-- Wakes those who watch; they hear of it when the turn is written.
SELECT pg_notify('afflux', %(message)s::text);

-- forget_old_events --
-- Words that are older than anybody asks for.
DELETE FROM afflux.events
WHERE at < now() - make_interval(days => %(days)s::integer);

-- recover_groups --
-- Every group that is there, in queue order.
SELECT
    namespace, name, state, queue, size, priority, created_seconds, ready_seconds, run_seconds,
    started_seconds, until_seconds, reason
FROM afflux.groups
ORDER BY priority DESC, ready_seconds, namespace, name;

-- recover_pods --
-- Their pods.
SELECT namespace, group_name, uid, name, machine
FROM afflux.pods
ORDER BY namespace, group_name, name, uid;

-- recover_promises --
-- What they were promised.
SELECT namespace, name, start_seconds, uids, machines
FROM afflux.reservations
ORDER BY start_seconds, namespace, name;

-- recover_intents --
-- What was about to be bound and is not known to have been.
SELECT uid, namespace, pod, group_name, machine, epoch
FROM afflux.intents
ORDER BY written_at, uid;

-- be_patient_for --
-- If we are gone in the middle of a turn, the fence must not stay held for long.
SELECT set_config('idle_in_transaction_session_timeout', %(milliseconds)s::text, false);

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
