-- An outbox table. Braces hold the quoted name of the table, and what it calls each column.
-- Constraints and indexes have no names of their own: Postgres derives them, cut to size and free of
-- collisions. Columns that may become enums or uuids are measured by a function that takes any type.

CREATE TABLE {table} (
    {id}              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    {created_at}      timestamptz NOT NULL DEFAULT now(),
    {topic}           text        NOT NULL CHECK (octet_length({topic}) <= 65536),
    {payload}         json        CHECK (octet_length({payload}::text) <= 16777216),
    {idempotency_key} text        NOT NULL DEFAULT gen_random_uuid()::text
                                  CHECK (octet_length({idempotency_key}) <= 512),
    {ordering_key}    text        CHECK (octet_length({ordering_key}) <= 65536),
    {type}            text        CHECK (pg_column_size({type}) <= 65536),
    {content_type}    text        CHECK (pg_column_size({content_type}) <= 65536),
    {tenant}          text        CHECK (pg_column_size({tenant}) <= 65536),
    {partition}       int,
    {headers}         json        CHECK (octet_length({headers}::text) <= 1048576),
    {traceparent}     text        CHECK (pg_column_size({traceparent}) <= 65536),
    UNIQUE ({topic}, {idempotency_key})
);

COMMENT ON TABLE {table} IS 'Transactional outbox: a row inserted here is published to Kafka by postrider once its transaction has committed. Rows are only inserted, never updated.';
COMMENT ON COLUMN {table}.{id} IS 'Identifies the event; the header id of its record.';
COMMENT ON COLUMN {table}.{created_at} IS 'When the transaction that wrote the event began.';
COMMENT ON COLUMN {table}.{topic} IS 'Kafka topic of the event.';
COMMENT ON COLUMN {table}.{payload} IS 'Value of the record, kept byte for byte, at most 16 MiB; NULL publishes a tombstone.';
COMMENT ON COLUMN {table}.{idempotency_key} IS 'Unique within the topic while the row exists, at most 512 bytes; the header idempotency-key of the record.';
COMMENT ON COLUMN {table}.{ordering_key} IS 'Events with the same ordering key keep their order; also the key of the record. Without one the idempotency key is the key.';
COMMENT ON COLUMN {table}.{type} IS 'Event type; the header type of the record.';
COMMENT ON COLUMN {table}.{content_type} IS 'Media type of the payload; the header content-type of the record.';
COMMENT ON COLUMN {table}.{tenant} IS 'Tenant the event belongs to; the header tenant of the record.';
COMMENT ON COLUMN {table}.{partition} IS 'Kafka partition; NULL chooses it by the record''s key.';
COMMENT ON COLUMN {table}.{headers} IS 'JSON object whose members become headers of the record, at most 1 MiB.';
COMMENT ON COLUMN {table}.{traceparent} IS 'W3C trace context; the header traceparent of the record.';
