-- Least privilege: three roles, none of which is a superuser.
--
--   application   writes events: it may INSERT into the outbox, and read back ids and idempotency keys
--   relay         runs `postrider run`: it may replicate, and keeps events that can't be published in
--                 postrider.undelivered. It deletes old rows of the outbox but writes none, and owns no
--                 table. With the same configuration people run `postrider dead` and `postrider replay`
--   operator      runs `postrider migrate` and `postrider teardown`. It owns what they create, so it may
--                 also run `postrider dead` and `postrider replay`
--
-- Run this script with psql, as an administrator, in the database of the outbox: once before `postrider
-- migrate`, and again after it, when the outbox and its schema exist and rights on them can be granted.
-- Running it more often changes nothing.
--
--   psql -v application=shop -v relay=postrider_relay -v operator=postrider_operator \
--        -v schema=public -v table=outbox -d shop -f docs/grants.sql
--
-- Triggers and row-level security policies of an outbox table run as the relay when its cleaner deletes
-- rows. So the table must not belong to a role that the relay should not trust.
--
-- If there are several outbox tables, run it once for each. With -v messages=on the application may also
-- write events without a table (docs/messages.md).

\set ON_ERROR_STOP on

-- Without this, a function that some role has created in schema public could be called instead of
-- Postgres's own, with your rights.
SET search_path = pg_catalog, pg_temp;

-- Missing roles are created, without passwords. Set passwords with \password, or let the roles log in
-- with another method in pg_hba.conf.
SELECT format('CREATE ROLE %I LOGIN', role)
  FROM unnest(ARRAY[:'application', :'relay', :'operator']) AS role
 WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) \gexec

-- By default every role may connect to a database. This may have been revoked from PUBLIC, and these
-- three roles must be able to connect.
GRANT CONNECT ON DATABASE :"DBNAME" TO :"application", :"relay", :"operator";

-- relay: it needs only the right to replicate in order to publish. Rows come from the WAL, for which
-- Postgres requires no right on the table, and every role may read the catalogs that the relay reads.
-- The right to replicate is a wide one: where pg_hba.conf accepts the role for the keyword
-- "replication", it can copy the whole server. Write a line there for this database only.
-- On Amazon RDS: GRANT rds_replication TO :"relay", :"operator"; instead of both ALTER ROLE.
ALTER ROLE :"relay" REPLICATION;
-- The relay stores how far it has got, which tables its slot covers, and its progress with rows that it
-- publishes from the tables themselves (docs/operations.md). To read those rows it needs the SELECT below.
SELECT format(sql, :'relay')
  FROM unnest(ARRAY['GRANT USAGE ON SCHEMA postrider TO %I',
                    'GRANT SELECT ON postrider.schema_version TO %I',
                    'GRANT SELECT, INSERT, UPDATE ON postrider.progress TO %I',
                    'GRANT SELECT, INSERT, UPDATE, DELETE ON postrider.coverage TO %I',
                    'GRANT SELECT, INSERT, UPDATE, DELETE ON postrider.backfill TO %I',
                    'GRANT SELECT, INSERT, UPDATE, DELETE ON postrider.backfill_table TO %I']) AS sql
 WHERE EXISTS (SELECT FROM pg_tables WHERE schemaname = 'postrider' AND tablename = 'backfill') \gexec
-- `postrider recover` can create an outbox, and then stores its column names (docs/enqueue.md).
SELECT format('GRANT SELECT, INSERT, UPDATE, DELETE ON postrider.outbox_columns TO %I', :'relay')
 WHERE EXISTS (SELECT FROM pg_tables WHERE schemaname = 'postrider' AND tablename = 'outbox_columns') \gexec
-- It notes that it publishes events without a table (docs/messages.md).
SELECT format('GRANT SELECT, INSERT ON postrider.message_slot TO %I', :'relay')
 WHERE EXISTS (SELECT FROM pg_tables WHERE schemaname = 'postrider' AND tablename = 'message_slot') \gexec
-- It parks events that can't be published, retries them, and deletes those that are done. With
-- undelivered.order = halt it does not, and needs none of these rights. `postrider replay` marks and
-- counts what it has published. To keep people from replaying with this role, revoke INSERT and UPDATE
-- on postrider.replayed from it; replay then refuses to publish.
SELECT format(sql, :'relay')
  FROM unnest(ARRAY['GRANT SELECT, INSERT, UPDATE, DELETE ON postrider.undelivered TO %I',
                    'GRANT SELECT, INSERT, UPDATE ON postrider.replayed TO %I']) AS sql
 WHERE EXISTS (SELECT FROM pg_tables WHERE schemaname = 'postrider' AND tablename = 'undelivered') \gexec
-- A role that may write to this table can stop the relay by locking a row of it: grant it to no other role.
SELECT format('GRANT SELECT, INSERT, UPDATE ON postrider.slot_lock TO %I', :'relay')
 WHERE EXISTS (SELECT FROM pg_tables WHERE schemaname = 'postrider' AND tablename = 'slot_lock') \gexec

-- `postrider recover`, `migrate` and `teardown` lock this table so that one of them runs at a time. A role
-- that may lock it can keep them waiting.
SELECT format('GRANT UPDATE ON postrider.command_lock TO %I', :'relay')
 WHERE EXISTS (SELECT FROM pg_tables WHERE schemaname = 'postrider' AND tablename = 'command_lock') \gexec

-- The relay deletes rows of the outbox that are old and certainly published. Without these rights it
-- warns, and the rows stay. SELECT is also needed to retry events whose value is larger than 16 MiB,
-- because such a value is not copied. Partitions need grants of their own. To let the relay drop whole
-- partitions, make it a member of the role that owns them: GRANT … TO :"relay".
-- Row-level security: rows come from the WAL whatever the policies are. But `postrider recover`,
-- postgres.snapshot = initial and the cleaner read the table itself, and policies could hide rows from
-- this role. Recover and the snapshot then stop with exit code 3, and the cleaner warns and leaves the
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

-- operator: REPLICATION creates and drops the slot; CREATE on the database creates schema postrider and
-- the publication; CREATE on the schema creates the outbox. A role can publish only tables that it owns:
-- a table that already exists must belong to the operator, or to a role that the operator is a member of.
ALTER ROLE :"operator" REPLICATION;
GRANT CREATE ON DATABASE :"DBNAME" TO :"operator";
-- migrate creates a schema that does not exist yet, and the operator then owns it.
SELECT format('GRANT USAGE, CREATE ON SCHEMA %I TO %I', :'schema', :'operator')
 WHERE EXISTS (SELECT FROM pg_namespace WHERE nspname = :'schema') \gexec

-- application: identity columns and defaults require no right other than INSERT. The functions that write
-- events (docs/enqueue.md) run with the rights of their caller. They return the id, and look up an event
-- with the same topic and idempotency key: they read these columns and no others. If the table has other
-- names for them, `postrider migrate` has stored these in postrider.outbox_columns, which the functions read
-- too.
SELECT format('GRANT USAGE ON SCHEMA %I TO %I', :'schema', :'application')
 WHERE EXISTS (SELECT FROM pg_namespace WHERE nspname = :'schema') \gexec
SELECT format('GRANT INSERT ON %I.%I TO %I', :'schema', :'table', :'application')
 WHERE EXISTS (SELECT FROM pg_tables WHERE schemaname = :'schema' AND tablename = :'table') \gexec
SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = 'postrider' AND tablename = 'outbox_columns') AS has_columns \gset
\if :has_columns
GRANT SELECT ON postrider.outbox_columns TO :"application";
SELECT format('GRANT SELECT (%s) ON %I.%I TO %I', string_agg(DISTINCT quote_ident(a.attname), ', '),
              :'schema', :'table', :'application')
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = :'schema'
  LEFT JOIN postrider.outbox_columns o ON o.outbox = c.oid
 CROSS JOIN unnest(ARRAY['id', 'topic', 'idempotency_key']) AS ours
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND a.attname = coalesce(o.columns ->> ours, ours)
 WHERE c.relname = :'table' AND c.relkind IN ('r', 'p')
HAVING count(*) > 0 \gexec
\endif
SELECT format('GRANT USAGE ON SCHEMA postrider TO %I', :'application')
 WHERE EXISTS (SELECT FROM pg_namespace WHERE nspname = 'postrider') \gexec
-- A consumer that keeps an inbox in this database (postrider.inbox_claim) also needs
--   GRANT INSERT ON postrider.inbox TO …; and to call postrider.inbox_clean, SELECT and DELETE.
-- With inbox.retention set, the relay deletes old claims, and needs
--   GRANT SELECT, DELETE ON postrider.inbox TO …

-- application, with -v messages=on: the functions that write events without a table. docs/messages.md
-- describes how to keep other roles from writing such messages without these functions.
\if :{?messages}
SELECT format('GRANT EXECUTE ON FUNCTION %s TO %I', oid::regprocedure, :'application')
  FROM pg_proc
 WHERE pronamespace = to_regnamespace('postrider')
   AND proname IN ('emit', 'emit_bytes', 'emit_batch', 'emit_batch_bytes') \gexec
\endif

RESET search_path;
