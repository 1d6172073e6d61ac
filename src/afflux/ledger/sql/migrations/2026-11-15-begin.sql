-- The first schema: groups from provisional to finished, reservations, bind intents, the fence.
--
-- Times named *_seconds are Unix seconds as the scheduler counts them, to the last bit: they are
-- the order of the queue. Times named *_at are this server's clock, for people.

-- The fence: only the leader of the highest epoch may write. One row; a writer holds its lock.
CREATE TABLE afflux.fence (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    epoch    bigint NOT NULL,
    -- The process that leads: an epoch taken twice by the same one is the same.
    holder   text NOT NULL,
    -- The number of the last turn written in this epoch: no turn is written twice.
    turn     bigint NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT now()
);

-- Lets a turn pass and holds the fence until its transaction ends; any other leader is refused.
CREATE FUNCTION afflux.pass_fence(my_epoch bigint, me text, my_turn bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    now_holds afflux.fence;
BEGIN
    UPDATE afflux.fence SET turn = my_turn
    WHERE epoch = my_epoch AND holder = me AND turn < my_turn;
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT * INTO now_holds FROM afflux.fence;
    IF now_holds.epoch = my_epoch AND now_holds.holder = me THEN
        RAISE EXCEPTION 'turn % of epoch % has been written', my_turn, my_epoch
            USING ERRCODE = 'AF002';
    END IF;
    RAISE EXCEPTION 'epoch % is over: epoch % leads', my_epoch, now_holds.epoch
        USING ERRCODE = 'AF001';
END
$$;

-- Moves the fence to an epoch, or to the next one if none is named; returns the epoch.
CREATE FUNCTION afflux.move_fence(my_epoch bigint, me text) RETURNS bigint
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

-- Every group that is there; its rows are in the three tables below, each group in one of them.
--
-- Its pods are in its row, [{"uid", "name": "namespace/name", "machine", "sent_to", "doubt"}, ...],
-- without what is empty: a row for each of them would cost ten times as much. `epoch` is whose
-- leader wrote the row last.
CREATE TABLE afflux.groups (
    namespace       text NOT NULL,
    name            text NOT NULL,
    state           text NOT NULL,
    queue           text NOT NULL,
    size            integer NOT NULL,
    priority        bigint NOT NULL,
    created_seconds double precision NOT NULL,
    ready_seconds   double precision,
    run_seconds     double precision,
    started_seconds double precision,
    until_seconds   double precision,
    reason          text NOT NULL,
    members         json NOT NULL,
    epoch           bigint NOT NULL,
    CHECK (false) NO INHERIT
);

-- Groups that have not all their members, or whose members contradict each other.
CREATE TABLE afflux.provisional_groups (
    PRIMARY KEY (namespace, name),
    CHECK (state IN ('provisional', 'refused'))
) INHERITS (afflux.groups);

-- Groups that wait to be started.
CREATE TABLE afflux.queue (
    PRIMARY KEY (namespace, name),
    CHECK (state IN ('waiting', 'unsatisfiable')),
    CHECK (ready_seconds IS NOT NULL)
) INHERITS (afflux.groups);
CREATE INDEX queue_by_position ON afflux.queue (queue, priority DESC, ready_seconds);

-- Groups that run, and when each has to be over; those included whose binds are under way. Half of
-- a page is left free, so that a group whose last bind succeeds stays where it is.
CREATE TABLE afflux.running_groups (
    PRIMARY KEY (namespace, name),
    CHECK (state IN ('starting', 'running'))
) INHERITS (afflux.groups) WITH (fillfactor = 50);

-- The pods of the groups that are there; where each is bound, if it is.
CREATE VIEW afflux.pods AS
    SELECT
        member.uid, groups.namespace, split_part(member.name, '/', 2) AS name,
        groups.name AS group_name, coalesce(member.machine, '') AS machine
    FROM afflux.groups
    CROSS JOIN LATERAL json_to_recordset(groups.members)
        AS member (uid text, name text, machine text);

-- The pods that wait for the rest of their group.
CREATE VIEW afflux.provisional_pods AS
    SELECT pods.* FROM afflux.pods
    JOIN afflux.provisional_groups AS groups
        ON groups.namespace = pods.namespace AND groups.name = pods.group_name;

-- Reservations: by when a waiting group starts (null: unknown), and a machine for each member.
CREATE TABLE afflux.reservations (
    namespace     text NOT NULL,
    name          text NOT NULL,
    start_seconds double precision,
    -- The witness: the n-th member, by uid, has the n-th machine.
    uids          text[] NOT NULL,
    machines      text[] NOT NULL,
    promised_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, name),
    CHECK (cardinality(uids) = cardinality(machines))
);

-- Intents: what is about to be bound. Open: sent, or about to be. Unknown: the pod has to be read
-- back. Once it is known what became of it, it is none any more.
CREATE VIEW afflux.intents AS
    SELECT
        member.uid, groups.namespace, split_part(member.name, '/', 2) AS pod,
        groups.name AS group_name, member.sent_to AS machine, groups.epoch,
        CASE WHEN member.doubt <> '' THEN 'unknown' ELSE 'open' END AS state,
        coalesce(member.doubt, '') AS reason
    FROM afflux.running_groups AS groups
    CROSS JOIN LATERAL json_to_recordset(groups.members)
        AS member (uid text, name text, sent_to text, doubt text)
    WHERE groups.state = 'starting' AND member.sent_to <> '';

-- Groups that are over: history, for accounting. Their names are free again.
CREATE TABLE afflux.finished_groups (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace       text NOT NULL,
    name            text NOT NULL,
    queue           text NOT NULL,
    size            integer NOT NULL,
    priority        bigint NOT NULL,
    created_seconds double precision NOT NULL,
    ready_seconds   double precision,
    run_seconds     double precision,
    started_seconds double precision,
    until_seconds   double precision,
    ended_seconds   double precision NOT NULL,
    how             text NOT NULL CHECK (how IN ('finished', 'deleted', 'deadline')),
    reason          text NOT NULL,
    -- The n-th pod, by name, was on the n-th machine; empty if it was on none.
    pods            text[] NOT NULL,
    machines        text[] NOT NULL
);
CREATE INDEX finished_groups_by_name ON afflux.finished_groups (namespace, name, ended_seconds);
CREATE INDEX finished_groups_by_end ON afflux.finished_groups (ended_seconds);

-- What happened to groups, in words.
CREATE TABLE afflux.events (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT now(),
    epoch     bigint NOT NULL,
    namespace text NOT NULL,
    name      text NOT NULL,
    kind      text NOT NULL,
    message   text NOT NULL
);
CREATE INDEX events_by_group ON afflux.events (namespace, name, id);
CREATE INDEX events_by_time ON afflux.events (at);
