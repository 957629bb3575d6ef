-- The side table: what it holds is counted truly, it works where md5() does not, and only who may write
-- to it can lock it.

-- Identifies a text of any length. Servers in FIPS mode refuse md5(). Half of a SHA-256 is a number that
-- two texts never share by accident: of two events that shared one, the second would be taken for the
-- first and lost, so a shorter hash would not do. A cast to bytea reads backslashes as escapes; doubled,
-- they stand for themselves, in every encoding.
CREATE FUNCTION postrider.text_id(value text) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN encode(substr(sha256(replace(value, E'\\', E'\\\\')::bytea), 1, 16), 'hex')::uuid;

COMMENT ON FUNCTION postrider.text_id IS 'Identifies a text of any length.';

CREATE OR REPLACE FUNCTION postrider.key_id(topic text, ordering_key text, partition int, whole_topic boolean)
    RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN whole_topic THEN postrider.text_id('topic:' || topic)
        WHEN ordering_key IS NOT NULL THEN postrider.text_id(octet_length(topic)::text || ':' || topic || ordering_key)
        WHEN partition IS NOT NULL THEN postrider.text_id('partition:' || partition::text || ':' || topic)
    END;

DROP INDEX postrider.undelivered_event;
DROP INDEX IF EXISTS postrider.undelivered_row, postrider.undelivered_discarded;
DROP INDEX postrider.undelivered_home;

-- One rewrite for both columns. Messages that are not events have a bound of their own.
ALTER TABLE postrider.undelivered
    DROP COLUMN key_id,
    ADD COLUMN key_id uuid
        GENERATED ALWAYS AS (postrider.key_id(topic, ordering_key, partition, whole_topic)) STORED,
    ADD COLUMN bytes bigint
        GENERATED ALWAYS AS (CASE WHEN reason = 'malformed' THEN 0 ELSE
            1024 + octet_length(topic) + octet_length(headers::text) + coalesce(octet_length(key), 0)
            + coalesce(octet_length(value), 0) + coalesce(octet_length(row_id), 0)
            + coalesce(octet_length(idempotency_key), 0) + coalesce(octet_length(ordering_key), 0)
            + coalesce(octet_length(tenant), 0) END) STORED;

COMMENT ON COLUMN postrider.undelivered.key_id IS 'Identifies the events that it keeps its order with; NULL: none.';
COMMENT ON COLUMN postrider.undelivered.bytes IS 'What it counts for in undelivered.breaker_bytes: its contents, and 1 kB for everything else that a row takes.';

-- The same event parked again is the same row.
CREATE UNIQUE INDEX undelivered_event ON postrider.undelivered
    (slot, source_table, commit_lsn, change_lsn, ordinal, postrider.text_id(coalesce(row_id, '')));
-- What of a key is not done, in the order of the log.
CREATE INDEX undelivered_key ON postrider.undelivered (slot, key_id, commit_lsn, change_lsn, ordinal, id)
    WHERE key_id IS NOT NULL AND status IN ('pending', 'processing', 'dead');
-- Whether the event of a row is parked, or was discarded. Ids can be long, and a hash takes any length.
CREATE INDEX undelivered_row ON postrider.undelivered USING hash (row_id)
    WHERE status IN ('pending', 'processing', 'dead');
CREATE INDEX undelivered_discarded ON postrider.undelivered USING hash (row_id) WHERE status = 'discarded';
-- Which slots have events that are not done, from which servers these are, and how much it is: all
-- without a look into the table.
CREATE INDEX undelivered_home ON postrider.undelivered
    (slot, whole_topic, coalesce(system_identifier, ''), commit_lsn) INCLUDE (bytes)
    WHERE status IN ('pending', 'processing', 'dead');
CREATE INDEX undelivered_malformed ON postrider.undelivered (slot)
    WHERE reason = 'malformed' AND status = 'dead';

-- Anybody may take an advisory lock; a row can be locked by those alone who may write to it.
CREATE TABLE postrider.slot_lock (
    slot   text PRIMARY KEY,
    parker uuid
);

COMMENT ON TABLE postrider.slot_lock IS 'Whoever changes which parked event of a key comes first locks the row of its slot, for a moment.';
COMMENT ON COLUMN postrider.slot_lock.parker IS 'Another one for each session of the relay: one that was overtaken must not park events any more.';

-- Who may write to the side table needs the lock for it.
DO $$
DECLARE
    grantee oid;
BEGIN
    FOR grantee IN
        SELECT DISTINCT a.grantee FROM pg_class c, aclexplode(c.relacl) AS a
         WHERE c.oid = 'postrider.undelivered'::regclass AND a.privilege_type = 'UPDATE'
           AND a.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE ON postrider.slot_lock TO %I', pg_get_userbyid(grantee));
    END LOOP;
END
$$;
