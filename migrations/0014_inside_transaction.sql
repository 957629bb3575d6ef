-- How far inside a transaction the relay is, so that a restart does not repeat it from its beginning,
-- and positions of parked events that do not depend on which tables are configured.

ALTER TABLE postrider.progress
    ADD COLUMN inside_commit_lsn pg_lsn,
    ADD COLUMN inside_change_lsn pg_lsn,
    ADD COLUMN inside_events     bigint,
    ADD COLUMN inside_depends_on uuid;

COMMENT ON COLUMN postrider.progress.inside_commit_lsn IS 'Where the commit record of the transaction starts that the relay is reading. NULL: it is not inside one.';
COMMENT ON COLUMN postrider.progress.inside_change_lsn IS 'Events of that transaction whose changes stand before this LSN are published, or in postrider.undelivered.';
COMMENT ON COLUMN postrider.progress.inside_events IS 'So are this many events of the change at inside_change_lsn.';
COMMENT ON COLUMN postrider.progress.inside_depends_on IS 'A hash of what decides which rows and messages are events: generation, server, timeline, version, publication, tables, messages. If it differs when the relay starts, the transaction is read from its beginning.';

ALTER TABLE postrider.undelivered ADD COLUMN change_lsn pg_lsn NOT NULL DEFAULT '0/0';

COMMENT ON COLUMN postrider.undelivered.commit_lsn IS 'Where the commit record of its transaction starts. Events of one ordering key leave in the order of commit_lsn, change_lsn and ordinal.';
COMMENT ON COLUMN postrider.undelivered.change_lsn IS 'Where its own change stands. 0/0: it was read from its table, or parked by a version that did not store this.';
COMMENT ON COLUMN postrider.undelivered.ordinal IS 'Its number among the events at change_lsn, from 0: rows of one COPY and events of one batch share an LSN. With change_lsn 0/0: among the events of its transaction, or of the snapshot.';

DROP INDEX postrider.undelivered_event;
CREATE UNIQUE INDEX undelivered_event ON postrider.undelivered
    (slot, source_table, commit_lsn, change_lsn, ordinal, md5(coalesce(row_id, '')));
DROP INDEX postrider.undelivered_key;
CREATE INDEX undelivered_key ON postrider.undelivered (slot, key_id, commit_lsn, change_lsn, ordinal, id)
    WHERE key_id IS NOT NULL AND status IN ('pending', 'processing', 'dead');
