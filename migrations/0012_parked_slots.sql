-- Parked events that come from another server, or of a slot that is gone; and what keeps its order.

-- Which events keep their order: those of a topic and ordering key; without an ordering key, those of a
-- topic and an explicit partition; or all of a topic. Existing rows keep their ids.
ALTER TABLE postrider.undelivered DROP COLUMN key_id;
DROP FUNCTION postrider.key_id(text, text);

CREATE FUNCTION postrider.key_id(topic text, ordering_key text, partition int, whole_topic boolean)
    RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN whole_topic THEN md5('topic:' || topic)
        WHEN ordering_key IS NOT NULL THEN md5(octet_length(topic)::text || ':' || topic || ordering_key)
        WHEN partition IS NOT NULL THEN md5('partition:' || partition::text || ':' || topic)
    END::uuid;

COMMENT ON FUNCTION postrider.key_id IS 'Identifies events that keep their order: those of a topic and ordering key, or of a topic and partition, or of a whole topic.';

ALTER TABLE postrider.undelivered
    ADD COLUMN system_identifier text,
    ADD COLUMN whole_topic boolean NOT NULL DEFAULT false,
    ADD COLUMN key_id uuid
        GENERATED ALWAYS AS (postrider.key_id(topic, ordering_key, partition, whole_topic)) STORED;

COMMENT ON COLUMN postrider.undelivered.commit_lsn IS 'Where the commit record of its transaction starts. Events that keep their order leave in the order of commit_lsn and ordinal. Positions below 0/1000000 belong to no log: such events came from another server, and only their order counts.';
COMMENT ON COLUMN postrider.undelivered.slot IS 'The slot whose relay parked the event, or took it over.';
COMMENT ON COLUMN postrider.undelivered.next_attempt_at IS 'When a pending event is due; infinity while it waits for an earlier event that it keeps its order with.';
COMMENT ON COLUMN postrider.undelivered.system_identifier IS 'The server whose log commit_lsn is a position of; NULL: parked before this was stored.';
COMMENT ON COLUMN postrider.undelivered.whole_topic IS 'It keeps its order with all events of its topic (undelivered.order is park-topic).';
COMMENT ON COLUMN postrider.undelivered.key_id IS 'Identifies the events that it keeps its order with; NULL: none.';

-- What of a key is not done, in the order of the log.
CREATE INDEX undelivered_key ON postrider.undelivered (slot, key_id, commit_lsn, ordinal, id)
    WHERE key_id IS NOT NULL AND status IN ('pending', 'processing', 'dead');
-- Which slots have events that are not done, and from which servers these are.
CREATE INDEX undelivered_home ON postrider.undelivered
    (slot, whole_topic, coalesce(system_identifier, ''), commit_lsn)
    WHERE status IN ('pending', 'processing', 'dead');

ALTER TABLE postrider.progress ADD COLUMN takeovers bigint NOT NULL DEFAULT 0;

COMMENT ON COLUMN postrider.progress.takeovers IS 'How often parked events of another slot were taken over by this one. When it changes, the relay reads again which keys are held.';
