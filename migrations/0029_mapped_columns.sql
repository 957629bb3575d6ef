-- The column names of outbox tables, for postrider.enqueue and its relatives: this migration stores them and
-- makes INSERTs of them, the next one changes the functions. As before these run with the rights of their
-- caller, and do not depend on the search path. Every name in a body that is not parsed now is qualified; and
-- IN, CASE with an operand and IS DISTINCT FROM, which look for an operator by its name, are not used.

-- By OID, so a table that is renamed keeps its row. pg_dump writes the name, and pg_upgrade keeps the OID.
CREATE TABLE postrider.outbox_columns (
    outbox  regclass PRIMARY KEY,
    columns jsonb    NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(columns) = 'object'),
    slot    text     NOT NULL
);

COMMENT ON TABLE postrider.outbox_columns IS 'The column names with which postrider.enqueue and its relatives write each configured outbox table. `postrider migrate` keeps them like the configuration.';
COMMENT ON COLUMN postrider.outbox_columns.outbox IS 'The outbox table.';
COMMENT ON COLUMN postrider.outbox_columns.columns IS 'The table''s name for each mapped column of postrider, as in postgres.columns. An empty name: the table has no such column. A column that is not listed has postrider''s name.';
COMMENT ON COLUMN postrider.outbox_columns.slot IS 'The slot of the relay whose configuration this is.';

-- Every role that calls the functions needs it, and everybody can see names of columns in the catalogs.
GRANT SELECT ON postrider.outbox_columns TO PUBLIC;

-- Roles that store what is promised for a table store its columns too.
DO $$
DECLARE
    grantee oid;
BEGIN
    FOR grantee IN
        SELECT DISTINCT a.grantee FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) AS a
         WHERE c.oid = 'postrider.coverage'::regclass AND a.privilege_type = 'UPDATE'
           AND a.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON postrider.outbox_columns TO %I', pg_get_userbyid(grantee));
    END LOOP;
END
$$;

CREATE FUNCTION postrider.json_as_jsonb(value json) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE STRICT
    AS $$
BEGIN
    RETURN value::pg_catalog.text::pg_catalog.jsonb;
-- Postgres's own error quotes the value, which may be a payload.
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'a JSON value can''t be stored in a column of type jsonb'
        USING ERRCODE = 'invalid_parameter_value',
              HINT = 'jsonb accepts neither \u0000 nor numbers of unlimited size; columns of type json or text do';
END
$$;

COMMENT ON FUNCTION postrider.json_as_jsonb IS 'Internal: converts JSON for a column of type jsonb.';

CREATE OR REPLACE FUNCTION postrider.payload_text(payload bytea, column_type text) RETURNS text
    LANGUAGE plpgsql STABLE STRICT
    AS $$
DECLARE
    payload_text pg_catalog.text;
BEGIN
    payload_text := pg_catalog.convert_from(payload, 'UTF8');
    IF column_type OPERATOR(pg_catalog.=) ANY ('{json,pg_catalog.json}'::pg_catalog.text[]) THEN
        PERFORM payload_text::pg_catalog.json;
    ELSIF column_type OPERATOR(pg_catalog.=) ANY ('{jsonb,pg_catalog.jsonb}'::pg_catalog.text[]) THEN
        PERFORM payload_text::pg_catalog.jsonb;
    END IF;
    RETURN payload_text;
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'payload can''t be stored in its column, which has type %', column_type
        USING ERRCODE = 'invalid_parameter_value',
              HINT = 'for bytes of any kind the column must be bytea; json, jsonb and text take UTF-8 only';
END
$$;

-- 17 is bytea, 114 json, 3802 jsonb. A type's own name is the one with the modifier -1: `character` alone
-- would be a single character.
CREATE FUNCTION postrider.stored_as(expression text, type_id oid, column_type oid) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE
        WHEN type_id = column_type THEN expression
        WHEN type_id = 17 THEN format('postrider.payload_text(%s, %L)::%s', expression,
                                      format_type(column_type, -1), format_type(column_type, -1))
        WHEN type_id = 114 AND column_type = 3802 THEN format('postrider.json_as_jsonb(%s)', expression)
        WHEN column_type = 17 THEN format('pg_catalog.convert_to(%s::pg_catalog.text, ''UTF8'')', expression)
        ELSE format('%s::pg_catalog.text::%s', expression, format_type(column_type, -1))
    END;

COMMENT ON FUNCTION postrider.stored_as IS 'Internal: the expression that stores a value of one type in a column of another.';

-- The columns of an outbox as the configuration names them: what has no other name has postrider's own, and
-- an empty name stands for none.
CREATE FUNCTION postrider.column_of(columns jsonb, name text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce(columns ->> name, name);

COMMENT ON FUNCTION postrider.column_of IS 'Internal: what an outbox table calls a column of postrider.';

-- Raises the error for the first argument that can't be stored; else for the column that would lack a value.
CREATE FUNCTION postrider.raise_column_problem(outbox regclass, table_name text, given text[], needed text)
    RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    AS $$
DECLARE
    known   CONSTANT text[] := '{topic,payload,idempotency_key,ordering_key,tenant,headers,traceparent,type,content_type,partition,id}';
    columns jsonb;
    problem record;
    fitting text;
BEGIN
    SELECT o.columns INTO columns FROM postrider.outbox_columns o WHERE o.outbox = raise_column_problem.outbox;
    SELECT k.name, m.name AS column_name, columns ? k.name AS is_mapped, a.attnum IS NULL AS is_missing,
           a.attgenerated <> '' OR a.attidentity = 'a' AS is_generated
      INTO problem
      FROM unnest(known) WITH ORDINALITY AS k (name, number)
     CROSS JOIN LATERAL postrider.column_of(columns, k.name) AS m (name)
      LEFT JOIN pg_attribute a ON a.attrelid = outbox AND a.attname = m.name AND a.attnum > 0 AND NOT a.attisdropped
     WHERE k.name = ANY (given) AND (a.attnum IS NULL OR a.attgenerated <> '' OR a.attidentity = 'a'
                                     OR k.name <> 'payload' AND m.name = postrider.column_of(columns, 'payload'))
        OR a.attnum IS NULL AND (k.name = 'id' AND columns ->> 'id' <> '' OR k.name = 'topic' AND columns IS NULL)
     ORDER BY k.number LIMIT 1;
    IF problem.is_missing AND problem.column_name = '' THEN
        RAISE EXCEPTION 'table % has no column for %: the configuration maps it to none', table_name, problem.name
            USING ERRCODE = 'undefined_column',
                  HINT = CASE problem.name WHEN 'topic' THEN 'pass NULL: the configuration has the topic of all events of this table'
                              ELSE format('leave %s out (NULL), or name its column in postgres.columns and run `postrider migrate`', problem.name) END;
    ELSIF problem.is_missing AND problem.is_mapped THEN
        RAISE EXCEPTION 'table % has no column "%", which the configuration maps % to', table_name, problem.column_name, problem.name
            USING ERRCODE = 'undefined_column',
                  HINT = 'correct postgres.columns and run `postrider migrate`, or give the column its name back';
    ELSIF problem.is_missing THEN
        RAISE EXCEPTION 'table % has no column %', table_name, problem.name
            USING ERRCODE = 'undefined_column',
                  HINT = concat(CASE WHEN problem.name NOT IN ('topic', 'payload') THEN format('leave %s out (NULL), or ', problem.name) END,
                                'add the column; if the table has it under another name, ',
                                CASE WHEN columns IS NULL THEN 'list the table in postgres.tables, ' END,
                                format('set postgres.columns (%s = "...") and run `postrider migrate`', problem.name));
    ELSIF problem.is_generated THEN
        RAISE EXCEPTION '% can''t be stored: Postgres generates column "%" of table %', problem.name, problem.column_name, table_name
            USING ERRCODE = 'generated_always',
                  HINT = format('leave %s out (NULL), or make it a column with a default', problem.name);
    ELSIF problem.name IS NOT NULL THEN
        RAISE EXCEPTION '% can''t be stored: column "%" of table % has the payload', problem.name, problem.column_name, table_name
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = format('leave %s out (NULL), or map it to a column of its own', problem.name);
    END IF;
    SELECT string_agg(k.name, ' or ' ORDER BY k.number) INTO fitting
      FROM unnest(known) WITH ORDINALITY AS k (name, number)
     WHERE k.name <> 'id' AND postrider.column_of(columns, k.name) = needed;
    RAISE EXCEPTION 'column "%" of table % must have a value', needed, table_name
        USING ERRCODE = 'not_null_violation',
              HINT = concat('give the column a default, or ', CASE
                         WHEN fitting IS NOT NULL THEN format('pass %s', fitting)
                         WHEN postrider.column_of(columns, 'id') = needed THEN 'map idempotency_key to it too, and pass one'
                         ELSE 'use INSERT instead of this function' END);
END
$$;

COMMENT ON FUNCTION postrider.raise_column_problem IS 'Internal: raises the error for an event that a table can''t store because of its columns.';

-- What an INSERT into the table consists of. Determined with each call: tables are altered while sessions
-- continue. `given` are the arguments that are not NULL, and a parameter has the number of its argument. (With
-- the default for plans, its queries would be planned again with each call.)
--   key_type         of the column for the idempotency key; NULL if that is left to the column's default
--   is_key_flexible  a key can be generated: the column accepts any text, or uuids
--   is_key_id        the column is also that of the id
--   has_topic        false: there is no column for the topic, which the configuration has
--   places           the column of each argument, if arguments share one
CREATE FUNCTION postrider.insert_parts(
    outbox regclass, given text[], payload_type oid, many boolean,
    OUT names text, OUT expressions text, OUT sources text, OUT id text, OUT key_type text,
    OUT is_key_flexible boolean, OUT is_key_id boolean, OUT has_topic boolean, OUT places int[], OUT tenant_keys boolean)
    LANGUAGE plpgsql STABLE SET plan_cache_mode = force_generic_plan
    AS $$
DECLARE
    known     CONSTANT pg_catalog.text[] := '{topic,payload,idempotency_key,ordering_key,tenant,headers,traceparent,type,content_type,partition}';
    columns   pg_catalog.jsonb;
    is_mapped boolean;
    it        pg_catalog.record;
    number    int;
    name      pg_catalog.text;
    value     pg_catalog.text;
    found_at  int;
    -- What is written, side by side: the column's number, its name, and the value as an expression.
    written   int[] := '{}';
    of_names  pg_catalog.text[];
    of_values pg_catalog.text[];
    of_texts  pg_catalog.text[];
    id_value  pg_catalog.text;
    id_place  int;
    key_place int;
    topic_place   int;
    payload_place int;
    is_flexible   boolean;
    is_wrong      boolean := false;
    is_shared     boolean := false;
    needed        pg_catalog.text;
BEGIN
    IF NOT pg_catalog.has_table_privilege('postrider.outbox_columns'::pg_catalog.regclass, 'SELECT') THEN
        RAISE EXCEPTION 'role % lacks SELECT on postrider.outbox_columns, which has the column names of outbox tables', current_user
            USING ERRCODE = 'insufficient_privilege',
                  HINT = pg_catalog.format('GRANT SELECT ON postrider.outbox_columns TO %I', current_user);
    END IF;
    tenant_keys := 'tenant' OPERATOR(pg_catalog.=) ANY (given) AND EXISTS (
        SELECT FROM pg_catalog.pg_constraint c
         WHERE c.conrelid OPERATOR(pg_catalog.=) insert_parts.outbox::pg_catalog.oid
           AND c.conname OPERATOR(pg_catalog.=) 'postrider_tenant_keys'::pg_catalog.name);
    has_topic := true;
    SELECT o.columns INTO columns FROM postrider.outbox_columns o
     WHERE o.outbox OPERATOR(pg_catalog.=) insert_parts.outbox::pg_catalog.oid;
    is_mapped := coalesce(columns OPERATOR(pg_catalog.<>) '{}'::pg_catalog.jsonb, false);
    -- A table as migrate makes it: a shorter way, for most of the time goes into questions like the next one.
    IF NOT is_mapped AND payload_type OPERATOR(pg_catalog.=) 114::pg_catalog.oid AND 11 OPERATOR(pg_catalog.=) (
        SELECT pg_catalog.count(*)
          FROM pg_catalog.pg_attribute a
         WHERE a.attrelid OPERATOR(pg_catalog.=) insert_parts.outbox::pg_catalog.oid
           AND (a.atttypid OPERATOR(pg_catalog.=) 25::pg_catalog.oid AND a.attname OPERATOR(pg_catalog.=) ANY (
                    '{topic,idempotency_key,ordering_key,tenant,traceparent,type,content_type}'::pg_catalog.name[])
             OR a.atttypid OPERATOR(pg_catalog.=) 114::pg_catalog.oid AND a.attname OPERATOR(pg_catalog.=) ANY (
                    '{payload,headers}'::pg_catalog.name[])
             OR a.atttypid OPERATOR(pg_catalog.=) 20::pg_catalog.oid AND a.attname OPERATOR(pg_catalog.=) 'id'::pg_catalog.name
             OR a.atttypid OPERATOR(pg_catalog.=) 23::pg_catalog.oid AND a.attname OPERATOR(pg_catalog.=) 'partition'::pg_catalog.name)) THEN
        FOREACH name IN ARRAY CASE WHEN 'idempotency_key' OPERATOR(pg_catalog.=) ANY (given) THEN given
                                   ELSE pg_catalog.array_append(given, 'idempotency_key'::pg_catalog.text) END
        LOOP
            value := pg_catalog.array_position(known, name)::pg_catalog.text;
            names := pg_catalog.concat_ws(', ', names, name);
            IF many THEN
                expressions := pg_catalog.concat_ws(', e.', expressions, name);
                sources := pg_catalog.concat_ws(', ', sources, pg_catalog.concat('pg_catalog.unnest($', value, ') AS ', name));
            ELSE
                expressions := pg_catalog.concat_ws(', $', expressions, value);
            END IF;
        END LOOP;
        expressions := CASE WHEN many THEN 'e.' ELSE '$' END OPERATOR(pg_catalog.||) expressions;
        id := 'id';
        key_type := 'text';
        is_key_flexible := true;
        is_key_id := false;
        RETURN;
    END IF;
    is_key_flexible := false;
    is_key_id := false;
    -- The columns that matter now: the first ones decide about those that follow.
    FOR it IN
        SELECT k.number, k.name, k.type_id, k.name OPERATOR(pg_catalog.=) ANY (given) AS is_given,
               a.attnum::int AS place, pg_catalog.quote_ident(a.attname) AS column_name, a.attnotnull AS is_not_null,
               t.type_id AS column_type, t.category,
               a.attgenerated OPERATOR(pg_catalog.<>) '' OR a.attidentity OPERATOR(pg_catalog.=) 'a' AS is_generated,
               a.atthasdef OR a.attidentity OPERATOR(pg_catalog.<>) '' OR t.has_default AS has_default
          FROM (VALUES (1, 11, 'id'::pg_catalog.text, 0::pg_catalog.oid), (2, 2, 'payload', payload_type), (3, 3, 'idempotency_key', 25),
                       (4, 1, 'topic', 25), (5, 4, 'ordering_key', 25), (6, 5, 'tenant', 25), (7, 6, 'headers', 114),
                       (8, 7, 'traceparent', 25), (9, 8, 'type', 25), (10, 9, 'content_type', 25), (11, 10, 'partition', 23),
                       (12, 12, 'created_at', 0)) AS k (turn, number, name, type_id)
          LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) insert_parts.outbox::pg_catalog.oid
           AND a.attname OPERATOR(pg_catalog.=) postrider.column_of(columns, k.name)::pg_catalog.name
           AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
          -- With a limit it is a look into the index instead of a scan of all types.
          LEFT JOIN LATERAL (
                SELECT CASE WHEN d.typtype OPERATOR(pg_catalog.=) 'd' THEN d.typbasetype ELSE d.oid END AS type_id,
                       d.typcategory AS category, d.typdefault IS NOT NULL AS has_default
                  FROM pg_catalog.pg_type d WHERE d.oid OPERATOR(pg_catalog.=) a.atttypid LIMIT 1) AS t ON true
         WHERE k.name OPERATOR(pg_catalog.=) ANY (given) OR k.number OPERATOR(pg_catalog.=) ANY ('{1,3,11}'::int[])
            OR k.number OPERATOR(pg_catalog.=) 12 AND pg_catalog.jsonb_exists(columns, k.name)
         ORDER BY k.turn
    LOOP
        IF it.place IS NULL THEN
            is_wrong := is_wrong OR it.is_given OR it.number OPERATOR(pg_catalog.=) 1 AND columns IS NULL
                OR it.number OPERATOR(pg_catalog.=) 11 AND columns OPERATOR(pg_catalog.->>) 'id' OPERATOR(pg_catalog.<>) '';
            CONTINUE;
        END IF;
        number := it.number;
        value := CASE WHEN many THEN 'e.' OPERATOR(pg_catalog.||) it.name ELSE '$' OPERATOR(pg_catalog.||) it.number::pg_catalog.text END;
        is_flexible := it.category OPERATOR(pg_catalog.=) 'S' OR it.column_type OPERATOR(pg_catalog.=) ANY ('{17,2950}'::pg_catalog.oid[]);
        IF number OPERATOR(pg_catalog.=) 11 THEN
            id := it.column_name;
            id_place := it.place;
            IF is_flexible AND it.is_not_null AND NOT it.has_default AND NOT it.is_generated THEN
                id_value := postrider.stored_as('pg_catalog.gen_random_uuid()', 2950, it.column_type);
            END IF;
            CONTINUE;
        ELSIF number OPERATOR(pg_catalog.=) 12 THEN
            IF it.category OPERATOR(pg_catalog.=) 'D' AND NOT it.has_default AND NOT it.is_generated
               AND it.place OPERATOR(pg_catalog.<>) ALL (written) THEN
                written := pg_catalog.array_append(written, it.place);
                of_names := pg_catalog.array_append(of_names, it.column_name);
                of_values := pg_catalog.array_append(of_values, 'pg_catalog.now()');
            END IF;
            CONTINUE;
        ELSIF number OPERATOR(pg_catalog.=) 1 THEN
            topic_place := it.place;
        ELSIF number OPERATOR(pg_catalog.=) 2 THEN
            payload_place := it.place;
        ELSIF number OPERATOR(pg_catalog.=) 3 THEN
            key_place := it.place;
            is_key_id := coalesce(it.place OPERATOR(pg_catalog.=) id_place, false);
            is_key_flexible := is_flexible;
            CONTINUE WHEN NOT it.is_given
                AND (NOT is_flexible OR it.is_generated OR is_key_id AND it.has_default AND NOT tenant_keys);
        END IF;
        CONTINUE WHEN NOT it.is_given AND number OPERATOR(pg_catalog.<>) 3;
        is_wrong := is_wrong OR it.is_generated
            OR number OPERATOR(pg_catalog.<>) 2 AND it.place OPERATOR(pg_catalog.=) payload_place;
        found_at := pg_catalog.array_position(written, it.place);
        is_shared := is_shared OR found_at IS NOT NULL
            OR number OPERATOR(pg_catalog.<>) 3 AND it.place OPERATOR(pg_catalog.=) key_place;
        IF it.place OPERATOR(pg_catalog.=) key_place THEN
            -- The key may be given by another argument, and is a parameter of its own.
            CONTINUE WHEN found_at IS NOT NULL;
            number := 3;
            value := CASE WHEN many THEN 'e.idempotency_key' ELSE '$3' END;
            key_type := pg_catalog.format_type(it.column_type, -1);
        END IF;
        sources := pg_catalog.concat_ws(', ', sources, pg_catalog.format('pg_catalog.unnest($%s) AS %s', number, known[number]));
        IF found_at IS NULL THEN
            written := pg_catalog.array_append(written, it.place);
            of_names := pg_catalog.array_append(of_names, it.column_name);
            of_values := pg_catalog.array_append(of_values, postrider.stored_as(value,
                CASE WHEN number OPERATOR(pg_catalog.=) 3 THEN 25::pg_catalog.oid ELSE it.type_id END, it.column_type));
            of_texts := pg_catalog.array_append(of_texts, value OPERATOR(pg_catalog.||) '::pg_catalog.text');
        ELSE
            of_texts[found_at] := pg_catalog.format('%s, %s::pg_catalog.text', of_texts[found_at], value);
            of_values[found_at] := postrider.stored_as(pg_catalog.format('coalesce(%s)', of_texts[found_at]), 25, it.column_type);
        END IF;
    END LOOP;
    has_topic := topic_place IS NOT NULL;
    IF id_value IS NOT NULL AND id_place OPERATOR(pg_catalog.<>) ALL (written) THEN
        written := pg_catalog.array_append(written, id_place);
        of_names := pg_catalog.array_append(of_names, id);
        of_values := pg_catalog.array_append(of_values, id_value);
    END IF;
    names := pg_catalog.array_to_string(of_names, ', ');
    expressions := pg_catalog.array_to_string(of_values, ', ');
    id := coalesce(id, 'NULL');
    IF is_mapped AND NOT ARRAY(
            SELECT a.attnum::int FROM pg_catalog.pg_attribute a
             WHERE a.attrelid OPERATOR(pg_catalog.=) insert_parts.outbox::pg_catalog.oid AND a.attnum OPERATOR(pg_catalog.>) 0
               AND a.attnotnull AND NOT a.atthasdef AND a.attidentity OPERATOR(pg_catalog.=) '' AND NOT a.attisdropped)
            OPERATOR(pg_catalog.<@) pg_catalog.array_append(written, topic_place) THEN
        -- A trigger may give the column its value, and a domain has a default of its own. Whether the topic is
        -- missing is checked later.
        SELECT pg_catalog.min(a.attname::pg_catalog.text) INTO needed
          FROM pg_catalog.pg_class c
          JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) c.oid AND a.attnum OPERATOR(pg_catalog.>) 0
           AND a.attnotnull AND NOT a.atthasdef AND a.attidentity OPERATOR(pg_catalog.=) '' AND NOT a.attisdropped
           AND a.attnum::int OPERATOR(pg_catalog.<>) ALL (pg_catalog.array_append(written, coalesce(topic_place, 0)))
          JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.atttypid AND t.typdefault IS NULL
         WHERE c.oid OPERATOR(pg_catalog.=) insert_parts.outbox::pg_catalog.oid AND NOT c.relhastriggers;
    END IF;
    IF is_wrong OR needed IS NOT NULL THEN
        PERFORM postrider.raise_column_problem(outbox, outbox::pg_catalog.text, given, needed);
    END IF;
    IF is_shared THEN
        places := ARRAY(
            SELECT a.attnum::int
              FROM pg_catalog.unnest(known) WITH ORDINALITY AS k (name, number)
              LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) insert_parts.outbox::pg_catalog.oid
               AND a.attname OPERATOR(pg_catalog.=) postrider.column_of(columns, k.name)::pg_catalog.name
             ORDER BY k.number);
    END IF;
END
$$;

COMMENT ON FUNCTION postrider.insert_parts IS 'Internal: the parts of an INSERT of these arguments into an outbox, whatever the names and types of its columns are.';
