-- The queries of people to the ledger: the name, one line about what it finds, the statement.
-- None of them writes, and the numbers of rows and the lengths of texts are limited.

-- queue_lines --
-- Groups that have not ended, by queue and position, and the number of all that remain. Without
-- states those of which members wait, or are being bound.
WITH positions AS (
    -- Counted in the whole queue: the third group is third even if the user may not see the others.
    SELECT
        key, row_number() OVER (PARTITION BY queue ORDER BY priority DESC, ready_seconds, key)
            AS position
    FROM afflux.queue
), shown AS (
    SELECT
        key, namespace, name AS full_name, alone, state, queue, size, present, waiting,
        priority, run_seconds, reason,
        coalesce(late_since_seconds, ready_seconds, created_seconds) AS since_seconds,
        array_position(
            '{starting,waiting,provisional,refused,running}'::text[],
            CASE state WHEN 'unsatisfiable' THEN 'waiting' ELSE state END
        ) AS rank
    FROM afflux.groups
    WHERE
        (%(namespace)s::text IS NULL OR namespace = %(namespace)s::text)
        AND (%(queue)s::text = '' OR queue = %(queue)s::text)
        AND CASE
            WHEN cardinality(%(states)s::text[]) = 0 THEN state <> 'running' OR waiting > 0
            ELSE state = ANY (%(states)s::text[])
        END
), page AS (
    SELECT shown.*, count(*) OVER () AS remaining
    FROM shown
    WHERE
        %(after_queue)s::text IS NULL
        OR (queue, rank, -priority, since_seconds, key) > (
            %(after_queue)s::text, %(after_rank)s::bigint, %(after_priority)s::bigint,
            %(after_seconds)s::float8, %(after_key)s::text
        )
    ORDER BY queue, rank, -priority, since_seconds, key
    LIMIT %(limit)s::integer
)
SELECT
    page.key, page.namespace, page.full_name, page.alone, page.state, page.queue, page.size,
    page.present, page.waiting, page.priority, page.run_seconds, left(page.reason, 2000) AS reason,
    page.since_seconds, page.rank, page.remaining, positions.position,
    reserved.start_seconds, coalesce(reserved.promised, false) AS promised,
    (page.namespace, page.alone) IN (SELECT namespace, name FROM afflux.groups WHERE alone = '')
        AS is_ambiguous
FROM page
LEFT JOIN positions USING (key)
LEFT JOIN LATERAL (
    SELECT reservations.start_seconds, true AS promised FROM afflux.reservations
    WHERE reservations.group_key = page.key
    ORDER BY reservations.start_seconds
    LIMIT 1
) AS reserved ON true
ORDER BY queue, rank, -priority, since_seconds, key;

-- reservation_lines --
-- Reservations, the earliest first, those without a start last.
WITH shown AS (
    SELECT
        reservations.start_key, groups.key, groups.namespace, groups.name AS full_name,
        groups.alone, groups.queue, groups.size, groups.priority, groups.run_seconds,
        reservations.start_seconds, reservations.uids, reservations.machines,
        coalesce(reservations.start_seconds, 'infinity'::float8) AS sort_start
    FROM afflux.reservations
    JOIN afflux.groups ON groups.key = reservations.group_key
    WHERE
        (%(namespace)s::text IS NULL OR groups.namespace = %(namespace)s::text)
        AND (%(queue)s::text = '' OR groups.queue = %(queue)s::text)
), page AS (
    SELECT shown.*, count(*) OVER () AS remaining
    FROM shown
    WHERE
        %(after_start)s::float8 IS NULL
        OR (sort_start, start_key) > (%(after_start)s::float8, %(after_key)s::text)
    ORDER BY sort_start, start_key
    LIMIT %(limit)s::integer
)
SELECT
    start_key, namespace, full_name, alone, queue, size, priority, run_seconds, start_seconds,
    sort_start, remaining, cardinality(uids) AS starting,
    uids[:%(max)s::integer] AS uids, machines[:%(max)s::integer] AS machines,
    (page.namespace, page.alone) IN (SELECT namespace, name FROM afflux.groups WHERE alone = '')
        AS is_ambiguous,
    ARRAY(
        SELECT coalesce(pods.name, witness.uid)
        FROM unnest(page.uids[:%(max)s::integer]) WITH ORDINALITY AS witness (uid, number)
        LEFT JOIN afflux.pods ON pods.uid = witness.uid AND pods.group_key = page.key
        ORDER BY witness.number
    ) AS members
FROM page
ORDER BY sort_start, start_key;

-- history_lines --
-- Ended groups, the latest first. One more than the limit, to know whether there are more.
SELECT
    id, namespace, name AS full_name, alone, queue, size, priority, created_seconds, ready_seconds,
    started_seconds, ended_seconds, how,
    (finished.namespace, finished.alone)
        IN (SELECT namespace, name FROM afflux.groups WHERE alone = '') AS is_ambiguous,
    (SELECT count(DISTINCT machine) FROM unnest(machines) AS machine WHERE machine <> '')
        AS machine_count,
    ARRAY(
        SELECT DISTINCT machine FROM unnest(machines) AS machine WHERE machine <> ''
        ORDER BY machine LIMIT %(max)s::integer
    ) AS machines
FROM afflux.finished_groups AS finished
WHERE
    (%(namespace)s::text IS NULL OR namespace = %(namespace)s::text)
    AND (%(queue)s::text = '' OR queue = %(queue)s::text)
    AND (
        %(after_ended)s::float8 IS NULL
        OR (ended_seconds, id) < (%(after_ended)s::float8, %(after_id)s::bigint)
    )
ORDER BY ended_seconds DESC, id DESC
LIMIT %(limit)s::integer + 1;

-- present_namesakes --
-- The group of this name, then the group of one of the pod of this name, if they have not ended.
SELECT DISTINCT ON (alone = %(name)s::text) key, name AS full_name
FROM afflux.groups
WHERE
    namespace = %(namespace)s::text AND (name = %(name)s::text OR alone = %(name)s::text)
ORDER BY alone = %(name)s::text, alone = '' DESC, created_seconds DESC, key;

-- ended_namesakes --
-- The group of this name, then the group of one of the pod of this name, that ended last.
SELECT id, full_name FROM (
    (
        SELECT id, name AS full_name, false AS is_pod FROM afflux.finished_groups
        WHERE namespace = %(namespace)s::text AND name = %(name)s::text
        ORDER BY ended_seconds DESC, id DESC
        LIMIT 1
    )
    UNION ALL
    (
        SELECT id, name AS full_name, true AS is_pod FROM afflux.finished_groups
        WHERE namespace = %(namespace)s::text AND alone = %(name)s::text AND alone <> ''
        ORDER BY ended_seconds DESC, id DESC
        LIMIT 1
    )
) AS namesakes
ORDER BY is_pod;

-- group_present --
-- One group that has not ended, its position and its reservation.
SELECT
    groups.key, groups.name AS full_name, groups.alone, groups.state, groups.queue, groups.size,
    groups.present, groups.priority, groups.created_seconds, groups.ready_seconds,
    groups.run_seconds, groups.started_seconds, groups.until_seconds,
    left(groups.reason, 2000) AS reason, reserved.start_seconds,
    coalesce(reserved.promised, false) AS promised,
    CASE WHEN groups.state IN ('waiting', 'unsatisfiable') THEN (
        SELECT 1 + count(*) FROM afflux.queue AS ahead
        WHERE
            ahead.queue = groups.queue
            AND (-ahead.priority, ahead.ready_seconds, ahead.key)
            < (-groups.priority, groups.ready_seconds, groups.key)
    ) END AS position,
    (SELECT count(*) FROM afflux.pods WHERE pods.group_key = groups.key) AS member_count,
    (groups.namespace, groups.alone)
        IN (SELECT namespace, name FROM afflux.groups WHERE alone = '') AS is_ambiguous
FROM afflux.groups
LEFT JOIN LATERAL (
    SELECT reservations.start_seconds, true AS promised FROM afflux.reservations
    WHERE reservations.group_key = groups.key
    ORDER BY reservations.start_seconds
    LIMIT 1
) AS reserved ON true
WHERE groups.key = %(key)s::text;

-- group_members --
-- Its pods: the machine of each, the machine of its bind, why the outcome of that is unknown, and
-- how it ended.
SELECT name, uid, machine, sent_to, left(doubt, 2000) AS doubt, how
FROM afflux.pods
WHERE group_key = %(key)s::text
ORDER BY name, uid
LIMIT %(max)s::integer;

-- group_witness --
-- The machines with room for its members at the reserved start.
SELECT coalesce(pods.name, witness.uid) AS member, witness.machine
FROM afflux.reservations
CROSS JOIN LATERAL unnest(reservations.uids, reservations.machines)
    WITH ORDINALITY AS witness (uid, machine, number)
LEFT JOIN afflux.pods ON pods.uid = witness.uid AND pods.group_key = %(key)s::text
WHERE reservations.group_key = %(key)s::text
ORDER BY member, witness.number
LIMIT %(max)s::integer;

-- group_ended --
-- One group of the history.
SELECT
    key, name AS full_name, alone, queue, size, priority, created_seconds, ready_seconds,
    run_seconds, started_seconds, until_seconds, ended_seconds, how, left(reason, 2000) AS reason,
    cardinality(pods) AS member_count, pods[:%(max)s::integer] AS pods,
    machines[:%(max)s::integer] AS machines, hows[:%(max)s::integer] AS hows,
    (finished.namespace, finished.alone)
        IN (SELECT namespace, name FROM afflux.groups WHERE alone = '') AS is_ambiguous
FROM afflux.finished_groups AS finished
WHERE id = %(id)s::bigint;

-- group_events --
-- Events of one group, the latest first; those of before 2026-11-19 have only the name of a group.
SELECT at, kind, left(message, 2000) AS message
FROM afflux.events
WHERE
    key = %(key)s::text
    OR key IS NULL AND namespace = %(namespace)s::text AND name = %(called)s::text
    AND at >= to_timestamp(%(created_seconds)s::float8)
ORDER BY id DESC
LIMIT %(max)s::integer;

-- count_group_events --
-- The number of events of one group.
SELECT count(*) AS event_count
FROM afflux.events
WHERE
    key = %(key)s::text
    OR key IS NULL AND namespace = %(namespace)s::text AND name = %(called)s::text
    AND at >= to_timestamp(%(created_seconds)s::float8);

-- set_transaction_options --
-- Limits the time of each statement, and keeps functions of others from being called.
SELECT
    set_config('statement_timeout', %(milliseconds)s::text, true),
    set_config('search_path', '', true);
