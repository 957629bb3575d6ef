-- The inbox: which events a consumer has done. Where its database is not that of an outbox, this file
-- alone is enough: psql --file migrations/0006_inbox.sql DATABASE. Running it again changes nothing.

DO $$
BEGIN
    IF to_regnamespace('postrider') IS NULL THEN
        CREATE SCHEMA postrider;
    END IF;
END
$$;

CREATE TABLE IF NOT EXISTS postrider.inbox (
    consumer        text        NOT NULL CHECK (octet_length(consumer) BETWEEN 1 AND 255),
    idempotency_key text        NOT NULL CHECK (octet_length(idempotency_key) BETWEEN 1 AND 512),
    claimed_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, idempotency_key)
);

-- What is old, for inbox_clean.
CREATE INDEX IF NOT EXISTS inbox_claimed ON postrider.inbox (claimed_at);

COMMENT ON TABLE postrider.inbox IS 'What each consumer has done. A consumer calls postrider.inbox_claim in the transaction of its effect.';
COMMENT ON COLUMN postrider.inbox.consumer IS 'Who does it. Idempotency keys are unique within a topic, so one name serves one topic.';
COMMENT ON COLUMN postrider.inbox.idempotency_key IS 'The header idempotency-key of the record.';
COMMENT ON COLUMN postrider.inbox.claimed_at IS 'When the transaction that did it began.';

CREATE OR REPLACE FUNCTION postrider.inbox_claim(consumer text, idempotency_key text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF coalesce(consumer, '') = '' OR octet_length(consumer) > 255 THEN
        RAISE EXCEPTION 'consumer must have 1 to 255 bytes'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'name who does it, for example shipping';
    END IF;
    IF coalesce(idempotency_key, '') = '' OR octet_length(idempotency_key) > 512 THEN
        RAISE EXCEPTION 'idempotency_key must have 1 to 512 bytes'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'it is the header idempotency-key of the record';
    END IF;
    -- Waits while another transaction has claimed it and is not done.
    INSERT INTO postrider.inbox VALUES (consumer, idempotency_key) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;

COMMENT ON FUNCTION postrider.inbox_claim IS 'True for the first transaction that commits with it: do the effect in the same one. False if it was done.';

CREATE OR REPLACE FUNCTION postrider.inbox_clean(retention interval, consumer text DEFAULT NULL, batch int DEFAULT 10000)
    RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    deleted bigint;
BEGIN
    IF retention IS NULL OR retention < interval '0' OR coalesce(batch, 0) < 1 THEN
        RAISE EXCEPTION 'retention and batch must not be missing or negative'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'keep what could come again: longer than the topic keeps records';
    END IF;
    DELETE FROM postrider.inbox
     WHERE ctid = ANY (ARRAY(SELECT i.ctid FROM postrider.inbox i
                              WHERE i.claimed_at < now() - retention
                                AND (inbox_clean.consumer IS NULL OR i.consumer = inbox_clean.consumer)
                              LIMIT batch));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;

COMMENT ON FUNCTION postrider.inbox_clean IS 'Forgets what was claimed longer ago than the retention, at most a batch of it, and returns how much. Call it until that is 0.';
