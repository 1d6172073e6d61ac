-- The queries of people to the ledger: the name, one line about what it finds, the statement.
-- None of them writes, and the numbers of rows and the lengths of texts are limited.

-- queue_lines --
-- Groups that have not ended, by queue and position, and the number of all that remain.
WITH positions AS (
    -- Counted in the whole queue: the third group is third even if the user may not see the others.
    SELECT
        namespace, name,
        row_number() OVER (
            PARTITION BY queue ORDER BY priority DESC, ready_seconds, namespace, name
        ) AS position
    FROM afflux.queue
), shown AS (
    SELECT
        namespace, name, state, queue, size, priority, run_seconds, reason,
        coalesce(ready_seconds, created_seconds) AS since_seconds,
        array_position(
            '{starting,waiting,provisional,refused,running}'::text[],
            CASE state WHEN 'unsatisfiable' THEN 'waiting' ELSE state END
        ) AS rank
    FROM afflux.groups
    WHERE
        (%(namespace)s::text IS NULL OR namespace = %(namespace)s::text)
        AND (%(queue)s::text = '' OR queue = %(queue)s::text)
        AND state = ANY (%(states)s::text[])
), page AS (
    SELECT shown.*, count(*) OVER () AS remaining
    FROM shown
    WHERE
        %(after_queue)s::text IS NULL
        OR (queue, rank, -priority, since_seconds, namespace, name) > (
            %(after_queue)s::text, %(after_rank)s::bigint, %(after_priority)s::bigint,
            %(after_seconds)s::float8, %(after_namespace)s::text, %(after_name)s::text
        )
    ORDER BY queue, rank, -priority, since_seconds, namespace, name
    LIMIT %(limit)s::integer
)
SELECT
    page.namespace, page.name, page.state, page.queue, page.size, page.priority, page.run_seconds,
    left(page.reason, 2000) AS reason, page.since_seconds, page.rank, page.remaining, positions.position,
    reservations.name IS NOT NULL AS promised, reservations.start_seconds,
    (
        SELECT json_array_length(members) FROM afflux.groups
        WHERE groups.namespace = page.namespace AND groups.name = page.name
    ) AS present
FROM page
LEFT JOIN positions USING (namespace, name)
LEFT JOIN afflux.reservations USING (namespace, name)
ORDER BY queue, rank, -priority, since_seconds, namespace, name;

-- reservation_lines --
-- Reservations, the earliest first, those without a start last.
WITH shown AS (
    SELECT
        reservations.namespace, reservations.name, groups.queue, groups.size, groups.priority,
        groups.run_seconds, reservations.start_seconds, reservations.uids, reservations.machines,
        coalesce(reservations.start_seconds, 'infinity'::float8) AS sort_start
    FROM afflux.reservations
    JOIN afflux.groups USING (namespace, name)
    WHERE
        (%(namespace)s::text IS NULL OR reservations.namespace = %(namespace)s::text)
        AND (%(queue)s::text = '' OR groups.queue = %(queue)s::text)
), page AS (
    SELECT shown.*, count(*) OVER () AS remaining
    FROM shown
    WHERE
        %(after_start)s::float8 IS NULL
        OR (sort_start, namespace, name) > (
            %(after_start)s::float8, %(after_namespace)s::text, %(after_name)s::text
        )
    ORDER BY sort_start, namespace, name
    LIMIT %(limit)s::integer
)
SELECT
    namespace, name, queue, size, priority, run_seconds, start_seconds, sort_start, remaining,
    uids[:%(max)s::integer] AS uids, machines[:%(max)s::integer] AS machines,
    ARRAY(
        SELECT coalesce(pods.name, witness.uid)
        FROM unnest(page.uids[:%(max)s::integer]) WITH ORDINALITY AS witness (uid, number)
        LEFT JOIN afflux.pods
            ON pods.uid = witness.uid
            AND pods.namespace = page.namespace AND pods.group_name = page.name
        ORDER BY witness.number
    ) AS members
FROM page
ORDER BY sort_start, namespace, name;

-- history_lines --
-- Ended groups, the latest first. One more than the limit, to know whether there are more.
SELECT
    id, namespace, name, queue, size, priority, created_seconds, ready_seconds, started_seconds,
    ended_seconds, how,
    (SELECT count(DISTINCT machine) FROM unnest(machines) AS machine WHERE machine <> '')
        AS machine_count,
    ARRAY(
        SELECT DISTINCT machine FROM unnest(machines) AS machine WHERE machine <> ''
        ORDER BY machine LIMIT %(max)s::integer
    ) AS machines
FROM afflux.finished_groups
WHERE
    (%(namespace)s::text IS NULL OR namespace = %(namespace)s::text)
    AND (%(queue)s::text = '' OR queue = %(queue)s::text)
    AND (
        %(after_ended)s::float8 IS NULL
        OR (ended_seconds, id) < (%(after_ended)s::float8, %(after_id)s::bigint)
    )
ORDER BY ended_seconds DESC, id DESC
LIMIT %(limit)s::integer + 1;

-- group_present --
-- One group that has not ended, its position and its reservation.
SELECT
    groups.state, groups.queue, groups.size, groups.priority, groups.created_seconds,
    groups.ready_seconds, groups.run_seconds, groups.started_seconds, groups.until_seconds,
    left(groups.reason, 2000) AS reason, reservations.name IS NOT NULL AS promised, reservations.start_seconds,
    CASE WHEN groups.state IN ('waiting', 'unsatisfiable') THEN (
        SELECT 1 + count(*) FROM afflux.queue AS ahead
        WHERE
            ahead.queue = groups.queue
            AND (-ahead.priority, ahead.ready_seconds, ahead.namespace, ahead.name)
            < (-groups.priority, groups.ready_seconds, groups.namespace, groups.name)
    ) END AS position,
    json_array_length(groups.members) AS member_count
FROM afflux.groups
LEFT JOIN afflux.reservations USING (namespace, name)
WHERE groups.namespace = %(namespace)s::text AND groups.name = %(name)s::text;

-- group_members --
-- Its pods: the machine of each, the machine of its bind, and why the outcome of that is unknown.
SELECT
    split_part(member.name, '/', 2) AS name, member.uid, member.machine, member.sent_to,
    left(member.doubt, 2000) AS doubt
FROM afflux.groups
CROSS JOIN LATERAL json_to_recordset(groups.members)
    AS member (uid text, name text, machine text, sent_to text, doubt text)
WHERE groups.namespace = %(namespace)s::text AND groups.name = %(name)s::text
ORDER BY member.name, member.uid
LIMIT %(max)s::integer;

-- group_witness --
-- The machines with room for its members at the reserved start.
SELECT coalesce(pods.name, witness.uid) AS member, witness.machine
FROM afflux.reservations
CROSS JOIN LATERAL unnest(reservations.uids, reservations.machines)
    WITH ORDINALITY AS witness (uid, machine, number)
LEFT JOIN afflux.pods
    ON pods.uid = witness.uid
    AND pods.namespace = %(namespace)s::text AND pods.group_name = %(name)s::text
WHERE reservations.namespace = %(namespace)s::text AND reservations.name = %(name)s::text
ORDER BY member, witness.number
LIMIT %(max)s::integer;

-- group_ended --
-- The group of this name that ended last.
SELECT
    queue, size, priority, created_seconds, ready_seconds, run_seconds, started_seconds,
    until_seconds, ended_seconds, how, left(reason, 2000) AS reason, cardinality(pods) AS member_count,
    pods[:%(max)s::integer] AS pods, machines[:%(max)s::integer] AS machines
FROM afflux.finished_groups
WHERE namespace = %(namespace)s::text AND name = %(name)s::text
ORDER BY ended_seconds DESC, id DESC
LIMIT 1;

-- group_events --
-- Events of groups of this name, the latest first.
SELECT at, kind, left(message, 2000) AS message
FROM afflux.events
WHERE namespace = %(namespace)s::text AND name = %(name)s::text
ORDER BY id DESC
LIMIT %(max)s::integer;

-- count_group_events --
-- The number of events of groups of this name.
SELECT count(*) AS event_count
FROM afflux.events
WHERE namespace = %(namespace)s::text AND name = %(name)s::text;

-- set_transaction_options --
-- Limits the time of each statement, and keeps functions of others from being called.
SELECT
    set_config('statement_timeout', %(milliseconds)s::text, true),
    set_config('search_path', '', true);
