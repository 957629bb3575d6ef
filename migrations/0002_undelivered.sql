-- Events that could not be published: parked here by the relay, which then goes on.

-- Topic and ordering key together, whatever their lengths: an index entry has room for 2,700 bytes.
CREATE FUNCTION postrider.key_id(topic text, ordering_key text) RETURNS uuid
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN md5(octet_length(topic)::text || ':' || topic || ordering_key)::uuid;

COMMENT ON FUNCTION postrider.key_id IS 'Identifies a topic and an ordering key: the events of which keep their order.';

CREATE TABLE postrider.undelivered (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    slot            text        NOT NULL,
    source_table    text        NOT NULL,
    row_id          text,
    idempotency_key text,
    ordering_key    text,
    tenant          text,
    commit_lsn      pg_lsn      NOT NULL,
    ordinal         bigint      NOT NULL,
    topic           text        NOT NULL,
    partition       int,
    key             bytea,
    value           bytea,
    value_bytes     bigint      NOT NULL,
    headers         json        NOT NULL,
    "timestamp"     timestamptz NOT NULL,
    form            text        NOT NULL CHECK (form IN ('whole', 'reference', 'fragment')),
    status          text        NOT NULL
                                CHECK (status IN ('pending', 'processing', 'delivered', 'dead', 'discarded')),
    reason          text        NOT NULL,
    attempts        int         NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    locked_by       text,
    locked_until    timestamptz,
    last_error      text,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    delivered_at    timestamptz,
    key_id          uuid        GENERATED ALWAYS AS (postrider.key_id(topic, ordering_key)) STORED,
    CHECK ((status = 'processing') = (locked_by IS NOT NULL AND locked_until IS NOT NULL))
);

-- The same event parked again is the same row. The table comes before the position, so that nobody
-- who asks for the first of a key can be lured into walking through the log with this index.
CREATE UNIQUE INDEX undelivered_event ON postrider.undelivered
    (slot, source_table, commit_lsn, ordinal, md5(coalesce(row_id, '')));
-- What of a key is not done, in the order of the log.
CREATE INDEX undelivered_key ON postrider.undelivered (slot, key_id, commit_lsn, ordinal, id)
    WHERE key_id IS NOT NULL AND status IN ('pending', 'processing', 'dead');
-- Whether something is due, and what comes first.
CREATE INDEX undelivered_due ON postrider.undelivered (slot, next_attempt_at) WHERE status = 'pending';
CREATE INDEX undelivered_turn ON postrider.undelivered (slot, created_at, id)
    WHERE status = 'pending' AND next_attempt_at < 'infinity';
CREATE INDEX undelivered_lease ON postrider.undelivered (slot, locked_until) WHERE status = 'processing';
CREATE INDEX undelivered_dead ON postrider.undelivered (created_at, id) WHERE status = 'dead';
CREATE INDEX undelivered_done ON postrider.undelivered (slot, updated_at)
    WHERE status IN ('delivered', 'discarded');

COMMENT ON TABLE postrider.undelivered IS 'Events that could not be published. Look at them with `postrider dead`, publish them again with `postrider replay`.';
COMMENT ON COLUMN postrider.undelivered.id IS 'Rises in the order in which events were parked.';
COMMENT ON COLUMN postrider.undelivered.slot IS 'The slot whose relay parked the event.';
COMMENT ON COLUMN postrider.undelivered.source_table IS 'The outbox table.';
COMMENT ON COLUMN postrider.undelivered.row_id IS 'The id of the outbox row.';
COMMENT ON COLUMN postrider.undelivered.commit_lsn IS 'Where the commit record of its transaction starts. Events of one ordering key leave in the order of commit_lsn and ordinal.';
COMMENT ON COLUMN postrider.undelivered.ordinal IS 'Its number among the events of its transaction, from 0.';
COMMENT ON COLUMN postrider.undelivered.value IS 'The value of the record, byte for byte; NULL is a tombstone, or see form.';
COMMENT ON COLUMN postrider.undelivered.value_bytes IS 'The length of the value.';
COMMENT ON COLUMN postrider.undelivered.headers IS 'The headers of the record in order: pairs of name and value.';
COMMENT ON COLUMN postrider.undelivered."timestamp" IS 'When the event was committed.';
COMMENT ON COLUMN postrider.undelivered.form IS 'whole: the finished record. reference: its value is too large to be copied and stays in the outbox. fragment: no record could be made of the row, so it can''t be published as it is.';
COMMENT ON COLUMN postrider.undelivered.status IS 'pending: will be tried again. processing: is being tried. dead: waits for an operator. delivered, discarded: done.';
COMMENT ON COLUMN postrider.undelivered.reason IS 'Why it was parked, in a word.';
COMMENT ON COLUMN postrider.undelivered.attempts IS 'How often it was taken up to be tried again.';
COMMENT ON COLUMN postrider.undelivered.next_attempt_at IS 'When a pending event is due; infinity while it waits behind another of its ordering key.';
COMMENT ON COLUMN postrider.undelivered.locked_by IS 'Who is trying it, until locked_until.';
COMMENT ON COLUMN postrider.undelivered.last_error IS 'What happened last. Never holds a payload.';
COMMENT ON COLUMN postrider.undelivered.key_id IS 'Identifies topic and ordering key.';

-- Commands end before anybody could ask them for metrics, so they leave their counts here.
CREATE TABLE postrider.replayed (
    topic  text   NOT NULL,
    result text   NOT NULL CHECK (result IN ('success', 'failure')),
    events bigint NOT NULL,
    PRIMARY KEY (topic, result)
);

COMMENT ON TABLE postrider.replayed IS 'How many events `postrider replay` has published, or failed to.';
