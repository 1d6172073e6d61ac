-- Groups by the key of their identity, members of large groups in chunks, more outcomes.
--
-- A name is chosen by users: a group and a pod may have the same one, and a later group may use it
-- again. The key belongs to one group for ever. A group of one that names no group has the default
-- name fluxnetes-group-NAMESPACE-POD, and its pod's name in `alone`.

-- Replicas of earlier versions cannot write this schema. The one that leads is deposed, and no other
-- can take over: this function is what they call.
UPDATE afflux.fence SET holder = '';

CREATE OR REPLACE FUNCTION afflux.move_fence(my_epoch bigint, me text) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the schema of the ledger is of a later version of afflux (2026-11-19-group-keys);'
        ' expected that version or a later one in every replica';
END
$$;

-- Moves the fence to an epoch, or to the next one if none is named; returns the epoch.
CREATE FUNCTION afflux.take_fence(my_epoch bigint, me text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    new_epoch bigint;
    last_epoch bigint;
BEGIN
    INSERT INTO afflux.fence (epoch, holder, turn) VALUES (-1, '', 0) ON CONFLICT DO NOTHING;
    UPDATE afflux.fence
    SET epoch = coalesce(my_epoch, epoch + 1), holder = me, turn = 0, taken_at = now()
    WHERE my_epoch IS NULL OR epoch < my_epoch OR (epoch = my_epoch AND holder = me)
    RETURNING epoch INTO new_epoch;
    IF new_epoch IS NULL THEN
        SELECT epoch INTO last_epoch FROM afflux.fence;
        RAISE EXCEPTION 'epoch % is over: epoch % leads', my_epoch, last_epoch
            USING ERRCODE = 'AF001';
    END IF;
    RETURN new_epoch;
END
$$;

DROP VIEW afflux.intents, afflux.provisional_pods, afflux.pods;

-- `born` is the uid of the first member; `present` is the number of members that have not ended;
-- `peak_bound` is the largest number of members that were bound at a time; with `may_have_been_whole`
-- there may have been more, when nothing was written. `waiting` is the number of members without a
-- machine. Those of a running group are late; the oldest of them was created at
-- `late_since_seconds`. Members that ended long ago are `unlisted`: they are counted only.
ALTER TABLE afflux.groups
    ADD COLUMN key                 text NOT NULL DEFAULT '',
    ADD COLUMN born                text NOT NULL DEFAULT '',
    ADD COLUMN alone               text NOT NULL DEFAULT '',
    ADD COLUMN present             integer NOT NULL DEFAULT 0,
    ADD COLUMN peak_bound          integer NOT NULL DEFAULT 0,
    ADD COLUMN may_have_been_whole boolean NOT NULL DEFAULT false,
    ADD COLUMN waiting             integer NOT NULL DEFAULT 0,
    ADD COLUMN late_since_seconds  float8,
    ADD COLUMN unlisted            integer NOT NULL DEFAULT 0;

-- The members of a group after its first 64, in chunks of up to 64 in the form of `groups.members`.
-- A batch writes only the chunks that change: a further pod of a group of thousands costs as much
-- as one of a small group. A row for each member would cost ten times as much as a chunk.
CREATE TABLE afflux.member_chunks (
    key     text NOT NULL,
    chunk   integer NOT NULL CHECK (chunk > 0),
    members json NOT NULL,
    PRIMARY KEY (key, chunk)
);

-- Rows of earlier versions: a group was called like its pod if it was one pod without a group, and
-- a group with the name of such a pod was called 'NAME (group)'.
UPDATE afflux.groups SET
    born = coalesce(members -> 0 ->> 'uid', ''),
    present = json_array_length(members),
    peak_bound = (
        SELECT count(*) FROM json_array_elements(members) AS member
        WHERE member ->> 'machine' <> ''
    ),
    waiting = (
        SELECT count(*) FROM json_array_elements(members) AS member
        WHERE
            coalesce(member ->> 'machine', '') = '' AND coalesce(member ->> 'sent_to', '') = ''
    ),
    alone = CASE
        WHEN size = 1 AND json_array_length(members) = 1
            AND members -> 0 ->> 'name' IN (name, namespace || '/' || name)
        THEN name
        ELSE ''
    END;
UPDATE afflux.groups SET name = CASE
    WHEN alone <> '' THEN 'fluxnetes-group-' || namespace || '-' || alone
    WHEN born <> '' THEN regexp_replace(name, ' \(group\)$', '')
    ELSE name
END;
UPDATE afflux.groups SET
    key = namespace || '/' || name || '/' || born || CASE WHEN alone <> '' THEN '/alone' ELSE '' END;
INSERT INTO afflux.member_chunks (key, chunk, members)
SELECT groups.key, (number - 1) / 64, json_agg(member ORDER BY number)
FROM afflux.groups
CROSS JOIN LATERAL json_array_elements(groups.members) WITH ORDINALITY AS every (member, number)
WHERE number > 64
GROUP BY groups.key, (number - 1) / 64;
UPDATE afflux.groups SET members = (
    SELECT json_agg(member ORDER BY number)
    FROM json_array_elements(members) WITH ORDINALITY AS every (member, number)
    WHERE number <= 64
)
WHERE json_array_length(members) > 64;

ALTER TABLE afflux.groups
    ALTER COLUMN key DROP DEFAULT,
    ALTER COLUMN born DROP DEFAULT,
    ALTER COLUMN present DROP DEFAULT;
ALTER TABLE afflux.provisional_groups
    DROP CONSTRAINT provisional_groups_pkey, ADD PRIMARY KEY (key);
ALTER TABLE afflux.queue
    DROP CONSTRAINT queue_pkey, ADD PRIMARY KEY (key);
ALTER TABLE afflux.running_groups
    DROP CONSTRAINT running_groups_pkey, ADD PRIMARY KEY (key);

-- A reservation is of what starts together: a group, or a late member of a group that runs.
ALTER TABLE afflux.reservations
    ADD COLUMN start_key text,
    ADD COLUMN group_key text,
    DROP CONSTRAINT reservations_pkey;
UPDATE afflux.reservations SET start_key = groups.key, group_key = groups.key
FROM afflux.groups
WHERE
    reservations.namespace = groups.namespace
    AND regexp_replace(reservations.name, ' \(group\)$', '')
        = coalesce(nullif(groups.alone, ''), groups.name)
    -- 'NAME (group)' and the pod NAME are two.
    AND (reservations.name LIKE '% (group)') <= (groups.alone = '');
DELETE FROM afflux.reservations WHERE group_key IS NULL;
ALTER TABLE afflux.reservations
    DROP COLUMN namespace,
    DROP COLUMN name,
    ALTER COLUMN group_key SET NOT NULL,
    ADD PRIMARY KEY (start_key);
CREATE INDEX reservations_by_group ON afflux.reservations (group_key);

-- The pods of the groups that are there: where each is bound, if it is, and how it ended, if it has.
CREATE VIEW afflux.pods AS
    SELECT
        member.uid, groups.namespace, split_part(member.name, '/', 2) AS name,
        groups.key AS group_key, groups.name AS group_name,
        coalesce(member.machine, '') AS machine, coalesce(member.sent_to, '') AS sent_to,
        coalesce(member.doubt, '') AS doubt, coalesce(member.how, '') AS how
    FROM afflux.groups
    CROSS JOIN LATERAL (
        SELECT groups.members
        UNION ALL
        SELECT chunks.members FROM afflux.member_chunks AS chunks WHERE chunks.key = groups.key
    ) AS part (members)
    CROSS JOIN LATERAL json_to_recordset(part.members)
        AS member (uid text, name text, machine text, sent_to text, doubt text, how text);

-- The pods that wait for the rest of their group.
CREATE VIEW afflux.provisional_pods AS
    SELECT pods.* FROM afflux.pods
    JOIN afflux.provisional_groups AS groups ON groups.key = pods.group_key;

-- Intents: what is about to be bound. Open: sent, or about to be. Unknown: the pod has to be read
-- back. Once it is known what became of it, it is none any more.
CREATE VIEW afflux.intents AS
    SELECT
        pods.uid, pods.namespace, pods.name AS pod, pods.group_key, pods.group_name,
        pods.sent_to AS machine, groups.epoch,
        CASE WHEN pods.doubt <> '' THEN 'unknown' ELSE 'open' END AS state, pods.doubt AS reason
    FROM afflux.running_groups AS groups
    JOIN afflux.pods ON pods.group_key = groups.key
    WHERE groups.state = 'starting' AND pods.sent_to <> '';

-- History. Groups that ended before this migration have no key, and are called like their pod if
-- they were one pod without a group; those that ended by themselves are 'finished', whether they
-- succeeded or failed. `hows` says how the n-th pod ended.
ALTER TABLE afflux.finished_groups
    ADD COLUMN key   text,
    ADD COLUMN alone text NOT NULL DEFAULT '',
    ADD COLUMN hows  text[] NOT NULL DEFAULT '{}',
    ADD COLUMN unlisted integer NOT NULL DEFAULT 0,
    DROP CONSTRAINT finished_groups_how_check,
    -- The rows that are there need not be read again.
    ADD CONSTRAINT finished_groups_how_check CHECK (
        how IN ('succeeded', 'failed', 'deadline', 'deleted', 'rejected', 'finished')
    ) NOT VALID;
CREATE INDEX finished_pods_by_name ON afflux.finished_groups (namespace, alone, ended_seconds)
    WHERE alone <> '';

-- Events before this migration have the namespace and the name of their group, later ones its key.
ALTER TABLE afflux.events
    ADD COLUMN key text,
    ALTER COLUMN namespace DROP NOT NULL,
    ALTER COLUMN name DROP NOT NULL;
DROP INDEX afflux.events_by_group;
CREATE INDEX events_by_group ON afflux.events (key, id);
CREATE INDEX events_by_name ON afflux.events (namespace, name, id) WHERE key IS NULL;
