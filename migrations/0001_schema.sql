-- The schema for postrider's own state, and what has been applied to it.

-- CREATE SCHEMA IF NOT EXISTS asks for the right to create schemas even where there is nothing to
-- create; an administrator may have made this one beforehand.
DO $$
BEGIN
    IF to_regnamespace('postrider') IS NULL THEN
        CREATE SCHEMA postrider;
        COMMENT ON SCHEMA postrider IS 'State of postrider, which publishes outbox tables to Kafka. Applications do not write here.';
    END IF;
END
$$;

CREATE TABLE postrider.schema_version (
    version    int         PRIMARY KEY,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON TABLE postrider.schema_version IS 'Which of postrider''s numbered migrations this database has.';
