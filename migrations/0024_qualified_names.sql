-- No object that somebody creates in a schema of the caller's search path, or in a temporary schema, can
-- stand in for what the functions mean. They still leave the path alone, for the outbox may have triggers
-- that rely on it: names of functions, operators and types are qualified, or the body is one that
-- Postgres reads when the function is created.

CREATE OR REPLACE FUNCTION postrider.payload_text(payload bytea, column_type text) RETURNS text
    LANGUAGE plpgsql STABLE STRICT
    AS $$
DECLARE
    payload_text pg_catalog.text;
BEGIN
    payload_text := pg_catalog.convert_from(payload, 'UTF8');
    IF column_type OPERATOR(pg_catalog.=) ANY ('{json,jsonb,pg_catalog.json,pg_catalog.jsonb}'::pg_catalog.text[]) THEN
        PERFORM payload_text::pg_catalog.json;
    END IF;
    RETURN payload_text;
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'payload is not what column payload of type % takes', column_type
        USING ERRCODE = 'invalid_parameter_value',
              HINT = 'for bytes of any kind the column must be bytea; json and text take UTF-8 only';
END
$$;

CREATE OR REPLACE FUNCTION postrider.enqueue_parts(
    outbox regclass, given text[], payload_type text, many boolean,
    OUT names text, OUT expressions text, OUT sources text, OUT id text, OUT key_type text,
    OUT tenant_keys boolean)
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    known CONSTANT pg_catalog.text[] := '{topic,payload,idempotency_key,ordering_key,tenant,headers,traceparent,type,content_type,partition}';
    missing pg_catalog.text;
BEGIN
    tenant_keys := 'tenant' OPERATOR(pg_catalog.=) ANY (given) AND EXISTS (
        SELECT FROM pg_catalog.pg_constraint c
         WHERE c.conrelid OPERATOR(pg_catalog.=) enqueue_parts.outbox::pg_catalog.oid
           AND c.conname OPERATOR(pg_catalog.=) 'postrider_tenant_keys'::pg_catalog.name);
    -- A table as migrate makes it: a shorter way, for most of the time goes into questions like the next one.
    IF payload_type OPERATOR(pg_catalog.=) 'json' AND 11 OPERATOR(pg_catalog.=) (
        SELECT pg_catalog.count(*)
          FROM pg_catalog.pg_attribute a
         WHERE a.attrelid OPERATOR(pg_catalog.=) enqueue_parts.outbox::pg_catalog.oid
           AND (a.atttypid OPERATOR(pg_catalog.=) 25::pg_catalog.oid AND a.attname OPERATOR(pg_catalog.=) ANY (
                    '{topic,idempotency_key,ordering_key,tenant,traceparent,type,content_type}'::pg_catalog.name[])
             OR a.atttypid OPERATOR(pg_catalog.=) 114::pg_catalog.oid AND a.attname OPERATOR(pg_catalog.=) ANY (
                    '{payload,headers}'::pg_catalog.name[])
             OR a.atttypid OPERATOR(pg_catalog.=) 20::pg_catalog.oid AND a.attname OPERATOR(pg_catalog.=) 'id'::pg_catalog.name
             OR a.atttypid OPERATOR(pg_catalog.=) 23::pg_catalog.oid AND a.attname OPERATOR(pg_catalog.=) 'partition'::pg_catalog.name)) THEN
        SELECT pg_catalog.string_agg(e.name, ', '),
               pg_catalog.string_agg(CASE WHEN many THEN 'e.' OPERATOR(pg_catalog.||) e.name
                                          ELSE '$' OPERATOR(pg_catalog.||) e.number END, ', '),
               pg_catalog.string_agg(pg_catalog.concat('pg_catalog.unnest($', e.number, ') AS ', e.name), ', ')
          INTO names, expressions, sources
          FROM (SELECT g.name, pg_catalog.array_position(known, g.name)::pg_catalog.text AS number
                  FROM pg_catalog.unnest(CASE WHEN 'idempotency_key' OPERATOR(pg_catalog.=) ANY (given) THEN given
                                              ELSE pg_catalog.array_append(given, 'idempotency_key'::pg_catalog.text) END)
                       AS g (name)) AS e;
        id := 'id';
        key_type := 'text';
        RETURN;
    END IF;
    WITH wanted (number, name, given_type, value) AS MATERIALIZED (
        SELECT k.number, k.name, k.given_type,
               CASE WHEN many THEN 'e.' OPERATOR(pg_catalog.||) pg_catalog.quote_ident(k.name)
                    ELSE '$' OPERATOR(pg_catalog.||) k.number::pg_catalog.text END
          FROM (VALUES (1, 'topic'::pg_catalog.text, 25::pg_catalog.oid),
                       (2, 'payload', CASE WHEN payload_type OPERATOR(pg_catalog.=) 'json' THEN 114 ELSE 17 END::pg_catalog.oid),
                       (3, 'idempotency_key', 25), (4, 'ordering_key', 25), (5, 'tenant', 25), (6, 'headers', 114),
                       (7, 'traceparent', 25), (8, 'type', 25), (9, 'content_type', 25),
                       (10, 'partition', 23)) AS k (number, name, given_type)
         WHERE k.name OPERATOR(pg_catalog.=) ANY (given) OR k.name OPERATOR(pg_catalog.=) 'idempotency_key'
    ), found AS (
        SELECT w.number, w.name, w.given_type, w.value, f.type_id, pg_catalog.format_type(f.type_id, NULL) AS type
          FROM wanted w
          LEFT JOIN (SELECT a.attname, CASE WHEN t.typtype OPERATOR(pg_catalog.=) 'd'::"char" THEN t.typbasetype
                                            ELSE t.oid END AS type_id
                       FROM pg_catalog.pg_attribute a
                       JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.atttypid
                      WHERE a.attrelid OPERATOR(pg_catalog.=) enqueue_parts.outbox::pg_catalog.oid
                        AND a.attnum OPERATOR(pg_catalog.>) 0::pg_catalog.int2 AND NOT a.attisdropped) AS f
                 ON f.attname OPERATOR(pg_catalog.=) w.name::pg_catalog.name
    ), written AS (
        SELECT f.number, f.name, f.type, CASE
                   WHEN f.type_id OPERATOR(pg_catalog.=) f.given_type THEN f.value
                   WHEN f.given_type OPERATOR(pg_catalog.=) 17::pg_catalog.oid
                       THEN pg_catalog.format('postrider.payload_text(%s, %L)::%s', f.value, f.type, f.type)
                   WHEN f.type_id OPERATOR(pg_catalog.=) 17::pg_catalog.oid
                       THEN pg_catalog.format('pg_catalog.convert_to(%s::pg_catalog.text, ''UTF8'')', f.value)
                   ELSE pg_catalog.format('%s::pg_catalog.text::%s', f.value, f.type)
               END AS expression
          FROM found f
         WHERE f.type IS NOT NULL OR f.name OPERATOR(pg_catalog.=) ANY (given)
         ORDER BY f.number
    )
    SELECT pg_catalog.string_agg(pg_catalog.quote_ident(w.name), ', '), pg_catalog.string_agg(w.expression, ', '),
           pg_catalog.string_agg(pg_catalog.format('pg_catalog.unnest($%s) AS %I', w.number, w.name), ', '),
           pg_catalog.max(w.type) FILTER (WHERE w.name OPERATOR(pg_catalog.=) 'idempotency_key'),
           (pg_catalog.array_agg(w.name) FILTER (WHERE w.type IS NULL))[1]
      INTO names, expressions, sources, key_type, missing
      FROM written w;
    id := CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_attribute a
                             WHERE a.attrelid OPERATOR(pg_catalog.=) enqueue_parts.outbox::pg_catalog.oid
                               AND a.attname OPERATOR(pg_catalog.=) 'id'::pg_catalog.name)
               THEN 'id' ELSE 'NULL' END;
    IF missing OPERATOR(pg_catalog.=) ANY ('{topic,payload}'::pg_catalog.text[]) THEN
        RAISE EXCEPTION 'table % has no column %', outbox, missing
            USING ERRCODE = 'undefined_column',
                  HINT = 'only tables with the names of postrider''s own columns can be written by this function; if yours have others, INSERT by hand';
    ELSIF missing IS NOT NULL THEN
        RAISE EXCEPTION 'table % has no column %', outbox, missing
            USING ERRCODE = 'undefined_column',
                  HINT = pg_catalog.format('leave %s out, or add the column to the table', missing);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION postrider.raise_problem(problem text[], which text DEFAULT '') RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION '%', pg_catalog.concat(which, problem[1])
        USING ERRCODE = 'invalid_parameter_value', HINT = problem[2];
END
$$;

-- Equality is that of the columns' types, from the schema where it is defined: an extension's, for example.
CREATE OR REPLACE FUNCTION postrider.find_enqueued(outbox regclass, topics text[], idempotency_keys text[])
    RETURNS TABLE (number bigint, id text)
    LANGUAGE plpgsql
    AS $$
DECLARE
    parts     pg_catalog.record;
    condition pg_catalog.text;
BEGIN
    parts := postrider.enqueue_parts(outbox, '{topic,payload,idempotency_key}', 'json', true);
    SELECT pg_catalog.string_agg(pg_catalog.format('o.%1$I OPERATOR(%2$I.=) e.%1$I::%3$s', c.name,
                                 coalesce(equal.schema, 'pg_catalog'), pg_catalog.format_type(c.type_id, NULL)), ' AND ')
      INTO condition
      FROM (SELECT a.attname AS name, CASE WHEN t.typtype OPERATOR(pg_catalog.=) 'd'::"char" THEN t.typbasetype
                                           ELSE t.oid END AS type_id
              FROM pg_catalog.pg_attribute a
              JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.atttypid
             WHERE a.attrelid OPERATOR(pg_catalog.=) find_enqueued.outbox::pg_catalog.oid
               AND a.attname OPERATOR(pg_catalog.=) ANY ('{topic,idempotency_key}'::pg_catalog.name[])
               AND NOT a.attisdropped) AS c
      LEFT JOIN LATERAL (
            SELECT n.nspname AS schema
              FROM pg_catalog.pg_opclass k
              JOIN pg_catalog.pg_am am ON am.oid OPERATOR(pg_catalog.=) k.opcmethod
               AND am.amname OPERATOR(pg_catalog.=) 'btree'::pg_catalog.name
              JOIN pg_catalog.pg_amop m ON m.amopfamily OPERATOR(pg_catalog.=) k.opcfamily
               AND m.amoplefttype OPERATOR(pg_catalog.=) k.opcintype
               AND m.amoprighttype OPERATOR(pg_catalog.=) k.opcintype
               AND m.amopstrategy OPERATOR(pg_catalog.=) 3::pg_catalog.int2
              JOIN pg_catalog.pg_operator p ON p.oid OPERATOR(pg_catalog.=) m.amopopr
              JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) p.oprnamespace
             WHERE k.opcdefault AND k.opcintype OPERATOR(pg_catalog.=) c.type_id
             LIMIT 1) AS equal ON true;
    RETURN QUERY EXECUTE pg_catalog.format(
        'SELECT e.n, o.id FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2)) WITH ORDINALITY AS e (topic, idempotency_key, n)
          CROSS JOIN LATERAL (SELECT %s::pg_catalog.text AS id FROM %s o WHERE %s LIMIT 1) o',
        parts.id::pg_catalog.text, outbox::pg_catalog.text, condition)
        USING topics, idempotency_keys;
END
$$;

-- A key of its own for an event that has none; one that keeps to the tenant rule, too.
CREATE OR REPLACE FUNCTION postrider.new_key(tenant text, key_type text) RETURNS text
    LANGUAGE sql VOLATILE PARALLEL SAFE
    RETURN CASE WHEN tenant IS NULL OR key_type IN ('uuid', 'pg_catalog.uuid') THEN gen_random_uuid()::text
                ELSE tenant || '/' || gen_random_uuid()::text END;

CREATE OR REPLACE FUNCTION postrider.enqueue_one_new(
    topic text, payload anyelement, payload_bytes int, idempotency_key text, ordering_key text, tenant text,
    headers json, traceparent text, type text, outbox regclass, content_type text, "partition" int,
    OUT id text, OUT is_new boolean)
    LANGUAGE plpgsql
    AS $$
DECLARE
    problem   pg_catalog.text[];
    key       pg_catalog.text := idempotency_key;
    parts     pg_catalog.record;
    statement pg_catalog.text;
    row_count int;
BEGIN
    parts := postrider.enqueue_parts(outbox, pg_catalog.array_remove(ARRAY['topic', 'payload',
        CASE WHEN idempotency_key IS NOT NULL THEN 'idempotency_key' END,
        CASE WHEN ordering_key IS NOT NULL THEN 'ordering_key' END,
        CASE WHEN tenant IS NOT NULL THEN 'tenant' END,
        CASE WHEN headers IS NOT NULL THEN 'headers' END,
        CASE WHEN traceparent IS NOT NULL THEN 'traceparent' END,
        CASE WHEN type IS NOT NULL THEN 'type' END,
        CASE WHEN content_type IS NOT NULL THEN 'content_type' END,
        CASE WHEN "partition" IS NOT NULL THEN 'partition' END]::pg_catalog.text[], NULL::pg_catalog.text),
        CASE WHEN pg_catalog.pg_typeof(payload)::pg_catalog.oid OPERATOR(pg_catalog.=) 114::pg_catalog.oid
             THEN 'json' ELSE 'bytea' END, false);
    problem := coalesce(
        postrider.event_problem(topic, payload_bytes, idempotency_key, tenant, headers, traceparent, "partition",
            parts.tenant_keys),
        postrider.text_problem(ordering_key, type, content_type));
    IF problem IS NOT NULL THEN
        PERFORM postrider.raise_problem(problem);
    END IF;
    IF tenant IS NULL AND pg_catalog.strpos(idempotency_key, '/') OPERATOR(pg_catalog.>) 0 THEN
        PERFORM postrider.refuse_keys_of_tenants(outbox, ARRAY[idempotency_key], NULL::pg_catalog.text[]);
    END IF;
    IF key IS NULL THEN
        key := postrider.new_key(tenant, parts.key_type);
    END IF;
    -- Without a target: a partitioned table has no unique key to name.
    statement := pg_catalog.format('INSERT INTO %s (%s) VALUES (%s)%s RETURNING %s::pg_catalog.text',
        outbox::pg_catalog.text, parts.names::pg_catalog.text, parts.expressions::pg_catalog.text,
        CASE WHEN idempotency_key IS NULL THEN '' ELSE ' ON CONFLICT DO NOTHING' END, parts.id::pg_catalog.text);
    -- What was in the way can be gone at the second look; ten times in a row is beyond bad luck.
    FOR attempt IN 1 .. 10 LOOP
        EXECUTE statement INTO id
            USING topic, payload, key, ordering_key, tenant, headers, traceparent, type, content_type, "partition";
        GET DIAGNOSTICS row_count = ROW_COUNT;
        is_new := row_count OPERATOR(pg_catalog.>) 0;
        EXIT WHEN is_new OR idempotency_key IS NULL;
        SELECT e.id INTO id FROM postrider.find_enqueued(outbox, ARRAY[topic], ARRAY[key]) AS e;
        GET DIAGNOSTICS row_count = ROW_COUNT;
        EXIT WHEN row_count OPERATOR(pg_catalog.>) 0;
    END LOOP;
    IF row_count OPERATOR(pg_catalog.=) 0 THEN
        PERFORM postrider.raise_not_written(outbox);
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION postrider.enqueue(
    topic text, payload json, idempotency_key text DEFAULT NULL, ordering_key text DEFAULT NULL,
    tenant text DEFAULT NULL, headers json DEFAULT NULL, traceparent text DEFAULT NULL, type text DEFAULT NULL,
    outbox regclass DEFAULT 'public.outbox'::text::regclass, content_type text DEFAULT NULL, "partition" int DEFAULT NULL)
    RETURNS text
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN postrider.enqueue_one(topic, payload, pg_catalog.octet_length(payload::pg_catalog.text), idempotency_key,
        ordering_key, tenant, headers, traceparent, type, outbox, content_type, "partition");
END
$$;

CREATE OR REPLACE FUNCTION postrider.enqueue_bytes(
    topic text, payload bytea, idempotency_key text DEFAULT NULL, ordering_key text DEFAULT NULL,
    tenant text DEFAULT NULL, headers json DEFAULT NULL, traceparent text DEFAULT NULL, type text DEFAULT NULL,
    outbox regclass DEFAULT 'public.outbox'::text::regclass, content_type text DEFAULT NULL, "partition" int DEFAULT NULL)
    RETURNS text
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN postrider.enqueue_one(topic, payload, pg_catalog.octet_length(payload), idempotency_key, ordering_key,
        tenant, headers, traceparent, type, outbox, content_type, "partition");
END
$$;

CREATE OR REPLACE FUNCTION postrider.enqueue_all(
    outbox regclass, topics text[], payloads anyarray, idempotency_keys text[] DEFAULT NULL, ordering_keys text[] DEFAULT NULL,
    tenants text[] DEFAULT NULL, headers json[] DEFAULT NULL, traceparents text[] DEFAULT NULL, types text[] DEFAULT NULL,
    content_types text[] DEFAULT NULL, partitions int[] DEFAULT NULL, checked boolean DEFAULT false)
    RETURNS text[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    event_count CONSTANT int := coalesce(pg_catalog.cardinality(topics), 0);
    with_keys   CONSTANT boolean := coalesce(pg_catalog.cardinality(
        pg_catalog.array_remove(idempotency_keys, NULL::pg_catalog.text)), 0) OPERATOR(pg_catalog.>) 0;
    keys        pg_catalog.text[] := idempotency_keys;
    bad         pg_catalog.record;
    parts       pg_catalog.record;
    insert_all  pg_catalog.text;
    and_return  pg_catalog.text;
    ids         pg_catalog.text[];
    id_count    int;
BEGIN
    IF event_count OPERATOR(pg_catalog.<>) ANY (ARRAY[coalesce(pg_catalog.cardinality(payloads), 0),
            pg_catalog.cardinality(idempotency_keys), pg_catalog.cardinality(ordering_keys), pg_catalog.cardinality(tenants),
            pg_catalog.cardinality(headers), pg_catalog.cardinality(traceparents), pg_catalog.cardinality(types),
            pg_catalog.cardinality(content_types), pg_catalog.cardinality(partitions)]) THEN
        PERFORM postrider.raise_problem(ARRAY['the arrays differ in length',
            'give each array one element per event, NULL where there is nothing; or leave the array out']::pg_catalog.text[]);
    END IF;
    IF event_count OPERATOR(pg_catalog.=) 0 THEN
        RETURN '{}';
    END IF;
    parts := postrider.enqueue_parts(outbox, pg_catalog.array_remove(ARRAY['topic', 'payload',
        CASE WHEN with_keys THEN 'idempotency_key' END,
        CASE WHEN ordering_keys IS NOT NULL THEN 'ordering_key' END,
        CASE WHEN tenants IS NOT NULL THEN 'tenant' END,
        CASE WHEN headers IS NOT NULL THEN 'headers' END,
        CASE WHEN traceparents IS NOT NULL THEN 'traceparent' END,
        CASE WHEN types IS NOT NULL THEN 'type' END,
        CASE WHEN content_types IS NOT NULL THEN 'content_type' END,
        CASE WHEN partitions IS NOT NULL THEN 'partition' END]::pg_catalog.text[], NULL::pg_catalog.text),
        CASE WHEN pg_catalog.pg_typeof(payloads)::pg_catalog.oid OPERATOR(pg_catalog.=) 199::pg_catalog.oid
             THEN 'json' ELSE 'bytea' END, true);
    IF NOT checked OR parts.tenant_keys THEN
        -- An element of an array is never compressed, and a large one has four bytes of its own.
        SELECT c.n, c.problem INTO bad
          FROM (SELECT e.n, coalesce(
                           postrider.event_problem(e.topic, pg_catalog.pg_column_size(e.payload) OPERATOR(pg_catalog.-) 4,
                               e.key, e.tenant, e.header, e.traceparent, e.part, parts.tenant_keys),
                           postrider.text_problem(e.ordering_key, e.type, e.content_type)) AS problem
                  FROM (SELECT pg_catalog.generate_series(1, event_count) AS n, pg_catalog.unnest(topics) AS topic,
                               pg_catalog.unnest(payloads) AS payload, pg_catalog.unnest(idempotency_keys) AS key,
                               pg_catalog.unnest(tenants) AS tenant, pg_catalog.unnest(headers) AS header,
                               pg_catalog.unnest(traceparents) AS traceparent, pg_catalog.unnest(partitions) AS part,
                               pg_catalog.unnest(ordering_keys) AS ordering_key, pg_catalog.unnest(types) AS type,
                               pg_catalog.unnest(content_types) AS content_type) AS e) AS c
         WHERE c.problem IS NOT NULL LIMIT 1;
        IF bad.n IS NOT NULL THEN
            PERFORM postrider.raise_problem(bad.problem, pg_catalog.format('event %s of %s: ', bad.n, event_count));
        END IF;
    END IF;
    IF parts.key_type IS NOT NULL AND (NOT with_keys OR pg_catalog.array_position(keys, NULL::pg_catalog.text) IS NOT NULL) THEN
        keys := ARRAY(SELECT coalesce(e.key, postrider.new_key(e.tenant, parts.key_type))
                        FROM ROWS FROM (pg_catalog.unnest(topics), pg_catalog.unnest(idempotency_keys), pg_catalog.unnest(tenants))
                             WITH ORDINALITY AS e (topic, key, tenant, n)
                       ORDER BY e.n);
    END IF;
    -- Arrays that are unnested side by side keep their order, and nothing here can change it. (In FROM each
    -- of them would be stored first, which is a tenth of all that is done here.)
    insert_all := pg_catalog.format('WITH written AS (INSERT INTO %s (%s) SELECT %s FROM (SELECT %s) AS e',
        outbox::pg_catalog.text, parts.names, parts.expressions, parts.sources);
    and_return := pg_catalog.format(
        ' RETURNING %s AS id) SELECT pg_catalog.array_agg(w.id)::pg_catalog.text[], pg_catalog.count(*) FROM written w', parts.id);
    IF NOT with_keys THEN
        EXECUTE insert_all OPERATOR(pg_catalog.||) and_return INTO ids, id_count
            USING topics, payloads, keys, ordering_keys, tenants, headers, traceparents, types, content_types, partitions;
    ELSE
        -- Most batches hold nothing twice, and ON CONFLICT makes an insert half as dear again.
        BEGIN
            EXECUTE insert_all OPERATOR(pg_catalog.||) and_return INTO ids, id_count
                USING topics, payloads, keys, ordering_keys, tenants, headers, traceparents, types, content_types, partitions;
        EXCEPTION WHEN unique_violation THEN
            id_count := 0;
        END;
        -- As for one event.
        FOR attempt IN 1 .. 10 LOOP
            EXIT WHEN id_count OPERATOR(pg_catalog.=) event_count;
            EXECUTE pg_catalog.concat(insert_all, ' ON CONFLICT DO NOTHING', and_return) INTO ids, id_count
                USING topics, payloads, keys, ordering_keys, tenants, headers, traceparents, types, content_types, partitions;
            EXIT WHEN id_count OPERATOR(pg_catalog.=) event_count;
            SELECT pg_catalog.array_agg(e.id ORDER BY e.number), pg_catalog.count(*) INTO ids, id_count
              FROM postrider.find_enqueued(outbox, topics, keys) AS e;
        END LOOP;
    END IF;
    IF id_count OPERATOR(pg_catalog.<) event_count THEN
        PERFORM postrider.raise_not_written(outbox);
    END IF;
    RETURN ids;
END
$$;

CREATE OR REPLACE FUNCTION postrider.require_tenant_keys(outbox regclass) RETURNS boolean
    LANGUAGE plpgsql SET lock_timeout = '10s'
    AS $$
DECLARE
    rule pg_catalog.record;
    is_valid boolean;
    all_valid boolean := true;
    is_new boolean := false;
BEGIN
    FOR rule IN
        SELECT v.name, v.condition
          FROM (VALUES ('postrider_tenant_keys',
                        'tenant IS NULL OR tenant OPERATOR(pg_catalog.<>) '''' AND pg_catalog.strpos(tenant, ''/'') OPERATOR(pg_catalog.=) 0
                         AND pg_catalog.starts_with(idempotency_key, tenant OPERATOR(pg_catalog.||) ''/'')'),
                       ('postrider_tenantless_keys',
                        'tenant IS NOT NULL OR pg_catalog.strpos(idempotency_key, ''/'') OPERATOR(pg_catalog.=) 0'))
               AS v (name, condition)
    LOOP
        is_valid := (SELECT c.convalidated FROM pg_catalog.pg_constraint c
                      WHERE c.conrelid OPERATOR(pg_catalog.=) require_tenant_keys.outbox::pg_catalog.oid
                        AND c.conname OPERATOR(pg_catalog.=) rule.name::pg_catalog.name);
        IF is_valid IS NULL THEN
            EXECUTE pg_catalog.format('ALTER TABLE %s ADD CONSTRAINT %I CHECK (%s) NOT VALID',
                outbox::pg_catalog.text, rule.name, rule.condition);
            is_new := true;
        END IF;
        all_valid := all_valid AND coalesce(is_valid, false);
    END LOOP;
    IF is_new OR all_valid THEN
        RETURN all_valid;
    END IF;
    EXECUTE pg_catalog.format('ALTER TABLE %s VALIDATE CONSTRAINT postrider_tenant_keys', outbox::pg_catalog.text);
    EXECUTE pg_catalog.format('ALTER TABLE %s VALIDATE CONSTRAINT postrider_tenantless_keys', outbox::pg_catalog.text);
    RETURN true;
END
$$;

CREATE OR REPLACE FUNCTION postrider.inbox_claim(consumer text, idempotency_key text) RETURNS boolean
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF coalesce(pg_catalog.octet_length(consumer), 0) OPERATOR(pg_catalog.=) 0
       OR pg_catalog.octet_length(consumer) OPERATOR(pg_catalog.>) 255 THEN
        RAISE EXCEPTION 'consumer must have 1 to 255 bytes'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'name who does it, for example shipping';
    END IF;
    IF coalesce(pg_catalog.octet_length(idempotency_key), 0) OPERATOR(pg_catalog.=) 0
       OR pg_catalog.octet_length(idempotency_key) OPERATOR(pg_catalog.>) 512 THEN
        RAISE EXCEPTION 'idempotency_key must have 1 to 512 bytes'
            USING ERRCODE = 'invalid_parameter_value', HINT = 'it is the header idempotency-key of the record';
    END IF;
    -- Waits while another transaction has claimed it and is not done.
    INSERT INTO postrider.inbox VALUES (consumer, idempotency_key) ON CONFLICT DO NOTHING;
    RETURN FOUND;
END
$$;

CREATE OR REPLACE FUNCTION postrider.inbox_clean(retention interval, consumer text DEFAULT NULL, batch int DEFAULT 10000)
    RETURNS bigint
    LANGUAGE plpgsql
    AS $$
DECLARE
    deleted bigint;
BEGIN
    IF retention IS NULL OR retention OPERATOR(pg_catalog.<) interval '0' OR coalesce(batch, 0) OPERATOR(pg_catalog.<) 1 THEN
        RAISE EXCEPTION 'retention and batch must not be missing or negative'
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'keep what could come again: longer than the topic keeps records';
    END IF;
    DELETE FROM postrider.inbox
     WHERE ctid OPERATOR(pg_catalog.=) ANY (ARRAY(
               SELECT i.ctid FROM postrider.inbox i
                WHERE i.claimed_at OPERATOR(pg_catalog.<) (pg_catalog.now() OPERATOR(pg_catalog.-) retention)
                  AND (inbox_clean.consumer IS NULL OR i.consumer OPERATOR(pg_catalog.=) inbox_clean.consumer)
                LIMIT batch));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
