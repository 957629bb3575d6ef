-- Least privilege: three roles, none of them a superuser.
--
--   application   writes events: may INSERT into the outbox, and read back ids and idempotency keys
--   relay         runs `postrider run`: may replicate, and keeps events that can't be published in
--                 postrider.undelivered; deletes old rows of the outbox, and writes none; owns no table.
--                 With the same configuration people run `postrider dead` and `postrider replay`
--   operator      runs `postrider migrate` and `postrider teardown`: owns what they make, so it may
--                 also run `postrider dead` and `postrider replay`
--
-- For psql, as an administrator, in the database of the outbox. Run it before `postrider migrate`,
-- and again after it: then the outbox, and its schema, are there to be granted. Running it more often changes nothing.
--
--   psql -v application=shop -v relay=postrider_relay -v operator=postrider_operator \
--        -v schema=public -v table=outbox -d shop -f docs/grants.sql
--
-- Triggers and row-level security policies of an outbox table run as the relay when its cleaner deletes rows:
-- give the table to nobody whom the relay should not trust.
--
-- With several outbox tables run it once for each. With -v messages=on the application may also write
-- events without a table (docs/messages.md).

\set ON_ERROR_STOP on

-- Else a function that somebody may create in schema public could be called in place of Postgres's own, as you.
SET search_path = pg_catalog, pg_temp;

-- Roles that are missing are created, without passwords: set them with \password, or let the roles in
-- by another method of pg_hba.conf.
SELECT format('CREATE ROLE %I LOGIN', role)
  FROM unnest(ARRAY[:'application', :'relay', :'operator']) AS role
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) \gexec

-- Everybody may connect to a database unless that was revoked from PUBLIC; these three must.
GRANT CONNECT ON DATABASE :"DBNAME" TO :"application", :"relay", :"operator";

-- relay: the right to replicate is all it needs to publish. Rows come out of the WAL, for which Postgres
-- asks no right on the table, and the catalogs that it looks at are open to everybody.
-- This right is a wide one: where pg_hba.conf lets the role use the keyword "replication", it can copy
-- the whole server. Give it a line for this database only.
-- On Amazon RDS: GRANT rds_replication TO :"relay", :"operator"; instead of both ALTER ROLE.
ALTER ROLE :"relay" REPLICATION;
-- It stores how far it has come, which tables its slot covers, and how far it is with rows that it
-- publishes from the tables themselves (docs/operations.md); for these it needs the SELECT below.
SELECT format(sql, :'relay')
  FROM unnest(ARRAY['GRANT USAGE ON SCHEMA postrider TO %I',
                    'GRANT SELECT ON postrider.schema_version TO %I',
                    'GRANT SELECT, INSERT, UPDATE ON postrider.progress TO %I',
                    'GRANT SELECT, INSERT, UPDATE, DELETE ON postrider.coverage TO %I',
                    'GRANT SELECT, INSERT, UPDATE, DELETE ON postrider.backfill TO %I',
                    'GRANT SELECT, INSERT, UPDATE, DELETE ON postrider.backfill_table TO %I']) AS sql
 WHERE EXISTS (SELECT FROM pg_tables WHERE schemaname = 'postrider' AND tablename = 'backfill') \gexec
-- It notes that it publishes events without a table (docs/messages.md).
SELECT format('GRANT SELECT, INSERT ON postrider.message_slot TO %I', :'relay')
 WHERE EXISTS (SELECT FROM pg_tables WHERE schemaname = 'postrider' AND tablename = 'message_slot') \gexec
-- It parks events that can't be published, tries them again, and deletes those that are done. Where
-- undelivered.order is halt it does not, and needs none of these. `postrider replay` marks and counts
-- what it has published: who should not replay with this role takes INSERT and UPDATE on
-- postrider.replayed from it, and replay then refuses to publish.
SELECT format(sql, :'relay')
  FROM unnest(ARRAY['GRANT SELECT, INSERT, UPDATE, DELETE ON postrider.undelivered TO %I',
                    'GRANT SELECT, INSERT, UPDATE ON postrider.replayed TO %I']) AS sql
 WHERE EXISTS (SELECT FROM pg_tables WHERE schemaname = 'postrider' AND tablename = 'undelivered') \gexec
-- Who may write to this table can stop the relay, by locking a row of it: grant it to nobody else.
SELECT format('GRANT SELECT, INSERT, UPDATE ON postrider.slot_lock TO %I', :'relay')
 WHERE EXISTS (SELECT FROM pg_tables WHERE schemaname = 'postrider' AND tablename = 'slot_lock') \gexec

-- `postrider recover`, `migrate` and `teardown` take turns by it. Who may lock it can keep them waiting.
SELECT format('GRANT UPDATE ON postrider.command_lock TO %I', :'relay')
 WHERE EXISTS (SELECT FROM pg_tables WHERE schemaname = 'postrider' AND tablename = 'command_lock') \gexec

-- It deletes rows of the outbox that are old and certainly published; without these rights it warns, and
-- they stay. SELECT also serves to try events again whose value is larger than 16 MiB: such a value is not
-- copied. Partitions need grants of their own. To have whole partitions dropped, make the relay a member
-- of the role that owns them: GRANT … TO :"relay".
-- Row-level security: rows come out of the WAL whatever the policies say. But `postrider recover`,
-- postgres.snapshot = initial and the cleaner read the table itself, and policies could hide rows from
-- this role: recover and the snapshot then stop with exit code 3, and the cleaner warns and leaves the
-- table alone. If the outbox has row-level security, run as a superuser: ALTER ROLE … BYPASSRLS for the
-- relay, or make the relay the owner of the table (without FORCE ROW LEVEL SECURITY).
SELECT format(sql, :'relay')
  FROM unnest(ARRAY['GRANT SELECT, INSERT, UPDATE, DELETE ON postrider.cleaner_floor TO %I',
                    'GRANT SELECT, INSERT, UPDATE, DELETE ON postrider.cleaner_mark TO %I',
                    'GRANT SELECT, INSERT, UPDATE, DELETE ON postrider.detached TO %I']) AS sql
 WHERE EXISTS (SELECT FROM pg_tables WHERE schemaname = 'postrider' AND tablename = 'cleaner_mark') \gexec
SELECT format('GRANT USAGE ON SCHEMA %I TO %I', :'schema', :'relay')
 WHERE EXISTS (SELECT FROM pg_namespace WHERE nspname = :'schema') \gexec
SELECT format('GRANT SELECT, DELETE ON %I.%I TO %I', n.nspname, c.relname, :'relay')
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = :'schema'
   AND (c.relname = :'table'
        OR EXISTS (SELECT FROM pg_partition_ancestors(c.oid) a
                    WHERE a.relid = (SELECT t.oid FROM pg_class t
                                      WHERE t.relname = :'table' AND t.relnamespace = n.oid)))
   AND c.relkind IN ('r', 'p') \gexec

-- operator: REPLICATION creates and drops the slot; CREATE on the database makes the schema postrider
-- and the publication; CREATE on the schema makes the outbox. A publication takes only tables of its
-- maker: a table that exists already must belong to the operator, or to a role it is a member of.
ALTER ROLE :"operator" REPLICATION;
GRANT CREATE ON DATABASE :"DBNAME" TO :"operator";
-- A schema that is not there yet is made by migrate, and then is the operator's own.
SELECT format('GRANT USAGE, CREATE ON SCHEMA %I TO %I', :'schema', :'operator')
 WHERE EXISTS (SELECT FROM pg_namespace WHERE nspname = :'schema') \gexec

-- application: identity columns and defaults ask for nothing more than INSERT. The functions that write
-- events (docs/enqueue.md) run with the rights of who calls them, return the id, and look for an event
-- with the same topic and idempotency key: they read these columns, and no other.
SELECT format('GRANT USAGE ON SCHEMA %I TO %I', :'schema', :'application')
 WHERE EXISTS (SELECT FROM pg_namespace WHERE nspname = :'schema') \gexec
SELECT format('GRANT INSERT ON %I.%I TO %I', :'schema', :'table', :'application')
 WHERE EXISTS (SELECT FROM pg_tables WHERE schemaname = :'schema' AND tablename = :'table') \gexec
SELECT format('GRANT SELECT (%s) ON %I.%I TO %I', string_agg(format('%I', column_name), ', '),
              :'schema', :'table', :'application')
  FROM information_schema.columns
 WHERE table_schema = :'schema' AND table_name = :'table' AND column_name IN ('id', 'topic', 'idempotency_key')
HAVING count(*) > 0 \gexec
SELECT format('GRANT USAGE ON SCHEMA postrider TO %I', :'application')
 WHERE EXISTS (SELECT FROM pg_namespace WHERE nspname = 'postrider') \gexec
-- A consumer that keeps an inbox in this database (postrider.inbox_claim) also needs
--   GRANT INSERT ON postrider.inbox TO …; and to call postrider.inbox_clean SELECT and DELETE.
-- With inbox.retention set, it is the relay that deletes old claims, and needs
--   GRANT SELECT, DELETE ON postrider.inbox TO …

-- application, with -v messages=on: the functions that write events without a table. docs/messages.md
-- says how to keep other roles from writing such messages without them.
\if :{?messages}
SELECT format('GRANT EXECUTE ON FUNCTION %s TO %I', oid::regprocedure, :'application')
  FROM pg_proc
 WHERE pronamespace = to_regnamespace('postrider')
   AND proname IN ('emit', 'emit_bytes', 'emit_batch', 'emit_batch_bytes') \gexec
\endif

RESET search_path;
