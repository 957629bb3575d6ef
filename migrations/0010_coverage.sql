-- What is promised for each slot, and by what a break of it is recognised.

ALTER TABLE postrider.coverage
    ADD COLUMN schema_name       text,
    ADD COLUMN table_name        text,
    ADD COLUMN publication_xmin  text,
    ADD COLUMN publication_owner oid,
    ADD COLUMN table_state       text;

COMMENT ON TABLE postrider.coverage IS 'Which outbox tables are promised for each slot: every row of theirs is published or parked before the slot moves past it. migrate and run add rows, migrate --withdraw removes them. The cleaner deletes a row of a table only if every slot that covers the table is past it.';
COMMENT ON COLUMN postrider.coverage.membership IS 'The OID of what puts the table into the publication: its own entry, that of a table it is a partition of, that of its schema, or the publication itself if it is FOR ALL TABLES. Another one means that the table was out of the publication for a while.';
COMMENT ON COLUMN postrider.coverage.schema_name IS 'The schema of the table when it was last found intact.';
COMMENT ON COLUMN postrider.coverage.table_name IS 'The name of the table when it was last found intact. If another table has it by now, the table was replaced.';
COMMENT ON COLUMN postrider.coverage.publication_xmin IS 'xmin of the publication in pg_publication: it changes when the options of the publication change.';
COMMENT ON COLUMN postrider.coverage.publication_owner IS 'The owner of the publication: a new owner changes xmin too, and does no harm.';
COMMENT ON COLUMN postrider.coverage.table_state IS 'What changes when a table that the publication does not list by name becomes UNLOGGED, or moves to another schema; NULL: not looked at yet.';
