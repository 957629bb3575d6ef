-- What else a finished record can need: what decides its partition in place of its key, and a schema
-- that is looked up when it is sent. An older program would send such records without it.
ALTER TABLE postrider.undelivered
    ADD COLUMN partition_by bytea,
    ADD COLUMN schema_to_find json,
    ADD COLUMN adds_committed_at boolean NOT NULL DEFAULT true;

COMMENT ON COLUMN postrider.undelivered.partition_by IS 'Decides the partition of the record; NULL: its key does.';
COMMENT ON COLUMN postrider.undelivered.schema_to_find IS 'The subject whose schema has to be looked up in the registry, and how the record is to refer to it.';
COMMENT ON COLUMN postrider.undelivered.adds_committed_at IS 'Whether the record gets the header committed-at if its timestamp has to differ from the time of the commit.';
