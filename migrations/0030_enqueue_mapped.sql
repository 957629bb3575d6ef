-- postrider.enqueue and its relatives write tables whose columns have names of their own, and
-- postrider.enqueue_jsonb writes payloads of type jsonb. What the previous migration says about names applies.

-- `given` has the arguments of one event as text, with NULL for the payload.
CREATE FUNCTION postrider.shared_problem(outbox regclass, places int[], given text[]) RETURNS text[]
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN (
        SELECT ARRAY[format('%s differ, but are stored in the same column "%s" of table %s', string_agg(k.name, ' and ' ORDER BY k.number),
                            min(a.attname::text), shared_problem.outbox),
                     'pass the same value, or only one of them']
          FROM ROWS FROM (unnest('{topic,payload,idempotency_key,ordering_key,tenant,headers,traceparent,type,content_type,partition}'::text[]),
                          unnest(shared_problem.places), unnest(shared_problem.given)) WITH ORDINALITY AS k (name, place, value, number)
          JOIN pg_attribute a ON a.attrelid = shared_problem.outbox AND a.attnum = k.place
         WHERE k.value IS NOT NULL
         GROUP BY k.place HAVING count(DISTINCT k.value) > 1
         ORDER BY k.place LIMIT 1);

COMMENT ON FUNCTION postrider.shared_problem IS 'Internal: explains which arguments of an event would need the same column for different values, and how to fix it. NULL: no problem was found.';

CREATE FUNCTION postrider.shared_key(places int[], given text[]) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (SELECT max(k.value) FROM ROWS FROM (unnest(places), unnest(given)) AS k (place, value) WHERE k.place = places[3]);

COMMENT ON FUNCTION postrider.shared_key IS 'Internal: the idempotency key of an event, which may be given by another argument that is stored in the same column.';

-- A uuid column would refuse the key too, but could not explain it.
CREATE FUNCTION postrider.key_problem(key text, key_type text, is_flexible boolean) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN key IS NULL AND NOT is_flexible
            THEN ARRAY['idempotency_key is missing, and can''t be generated for a column of type ' || key_type,
                       'pass one for every event of the batch, or for none']
        WHEN key_type = 'uuid' AND key !~* '^({[0-9a-f]{4}(-?[0-9a-f]{4}){7}}|[0-9a-f]{4}(-?[0-9a-f]{4}){7})$'
            THEN ARRAY[format('idempotency_key "%s" is not a uuid, which its column requires', left(key, 60)),
                       'pass a uuid, for example one that is derived from the key (version 5)']
    END;

COMMENT ON FUNCTION postrider.key_problem IS 'Internal: explains why a column can''t have this idempotency key, and how to fix it. NULL: no problem was found.';

CREATE OR REPLACE FUNCTION postrider.raise_not_written(outbox regclass) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'table % accepts no such event, and has none with its topic and idempotency_key', outbox
        USING ERRCODE = 'unique_violation',
              HINT = 'look for a unique index on other columns, or on the idempotency key alone, which another topic has used; or for a trigger that drops rows';
END
$$;

-- Equality is that of the columns' types, from the schema where it is defined: an extension's, for example.
CREATE OR REPLACE FUNCTION postrider.find_enqueued(outbox regclass, topics text[], idempotency_keys text[])
    RETURNS TABLE (number bigint, id text)
    LANGUAGE plpgsql
    AS $$
DECLARE
    condition pg_catalog.text;
    id_column pg_catalog.text;
BEGIN
    SELECT pg_catalog.string_agg(pg_catalog.format('o.%I OPERATOR(%I.=) %s', c.attname, coalesce(equal.schema, 'pg_catalog'),
               postrider.stored_as('e.' OPERATOR(pg_catalog.||) c.name, 25, c.type_id)), ' AND ')
               FILTER (WHERE c.name OPERATOR(pg_catalog.<>) 'id'),
           coalesce(pg_catalog.max(pg_catalog.quote_ident(c.attname)) FILTER (WHERE c.name OPERATOR(pg_catalog.=) 'id'), 'NULL')
      INTO condition, id_column
      FROM (SELECT k.name, a.attname, CASE WHEN t.typtype OPERATOR(pg_catalog.=) 'd' THEN t.typbasetype ELSE t.oid END AS type_id
              FROM pg_catalog.unnest('{topic,idempotency_key,id}'::pg_catalog.text[]) AS k (name)
             CROSS JOIN (SELECT (SELECT n.columns FROM postrider.outbox_columns n
                                  WHERE n.outbox OPERATOR(pg_catalog.=) find_enqueued.outbox::pg_catalog.oid) AS columns) AS m
              JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) find_enqueued.outbox::pg_catalog.oid
               AND a.attname OPERATOR(pg_catalog.=) postrider.column_of(m.columns, k.name)::pg_catalog.name
               AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
              JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.atttypid) AS c
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
        id_column, outbox::pg_catalog.text, condition)
        USING topics, idempotency_keys;
END
$$;

CREATE OR REPLACE FUNCTION postrider.enqueue_one_new(
    topic text, payload anyelement, payload_bytes int, idempotency_key text, ordering_key text, tenant text,
    headers json, traceparent text, type text, outbox regclass, content_type text, "partition" int,
    OUT id text, OUT is_new boolean)
    LANGUAGE plpgsql
    AS $$
DECLARE
    problem   pg_catalog.text[];
    key       pg_catalog.text := idempotency_key;
    is_keyed  boolean;
    parts     pg_catalog.record;
    given     pg_catalog.text[];
    statement pg_catalog.text;
    row_count int;
BEGIN
    parts := postrider.insert_parts(outbox, pg_catalog.array_remove(ARRAY['payload',
        CASE WHEN topic IS NOT NULL THEN 'topic' END,
        CASE WHEN idempotency_key IS NOT NULL THEN 'idempotency_key' END,
        CASE WHEN ordering_key IS NOT NULL THEN 'ordering_key' END,
        CASE WHEN tenant IS NOT NULL THEN 'tenant' END,
        CASE WHEN headers IS NOT NULL THEN 'headers' END,
        CASE WHEN traceparent IS NOT NULL THEN 'traceparent' END,
        CASE WHEN type IS NOT NULL THEN 'type' END,
        CASE WHEN content_type IS NOT NULL THEN 'content_type' END,
        CASE WHEN "partition" IS NOT NULL THEN 'partition' END]::pg_catalog.text[], NULL::pg_catalog.text),
        pg_catalog.pg_typeof(payload)::pg_catalog.oid, false);
    IF parts.places IS NOT NULL THEN
        given := ARRAY[topic, NULL, idempotency_key, ordering_key, tenant, headers::pg_catalog.text, traceparent, type,
                       content_type, "partition"::pg_catalog.text];
        problem := postrider.shared_problem(outbox, parts.places, given);
        key := postrider.shared_key(parts.places, given);
    END IF;
    problem := coalesce(problem,
        postrider.event_problem(CASE WHEN parts.has_topic THEN topic ELSE 'none' END, payload_bytes, key, tenant, headers,
            traceparent, "partition", parts.tenant_keys),
        postrider.text_problem(ordering_key, type, content_type));
    is_keyed := key IS NOT NULL;
    IF problem IS NULL AND is_keyed AND parts.key_type OPERATOR(pg_catalog.<>) 'text' THEN
        problem := postrider.key_problem(key, parts.key_type, parts.is_key_flexible);
    END IF;
    IF problem IS NOT NULL THEN
        PERFORM postrider.raise_problem(problem);
    END IF;
    IF tenant IS NULL AND pg_catalog.strpos(key, '/') OPERATOR(pg_catalog.>) 0 THEN
        PERFORM postrider.refuse_keys_of_tenants(outbox, ARRAY[key], NULL::pg_catalog.text[]);
    END IF;
    IF NOT is_keyed THEN
        -- A column that is also the id may be too short for more than a uuid.
        key := postrider.new_key(CASE WHEN parts.tenant_keys OR NOT parts.is_key_id THEN tenant END, parts.key_type);
    END IF;
    -- Without a target: a partitioned table has no unique key to name.
    statement := pg_catalog.format('INSERT INTO %s (%s) VALUES (%s)%s RETURNING %s::pg_catalog.text',
        outbox::pg_catalog.text, parts.names, parts.expressions,
        CASE WHEN is_keyed THEN ' ON CONFLICT DO NOTHING' ELSE '' END, parts.id);
    -- What was in the way can be gone at the second look; ten times in a row is beyond bad luck.
    FOR attempt IN 1 .. 10 LOOP
        EXECUTE statement INTO id
            USING topic, payload, key, ordering_key, tenant, headers, traceparent, type, content_type, "partition";
        GET DIAGNOSTICS row_count = ROW_COUNT;
        is_new := row_count OPERATOR(pg_catalog.>) 0;
        EXIT WHEN is_new OR NOT is_keyed;
        SELECT e.id INTO id FROM postrider.find_enqueued(outbox, ARRAY[topic], ARRAY[key]) AS e;
        GET DIAGNOSTICS row_count = ROW_COUNT;
        EXIT WHEN row_count OPERATOR(pg_catalog.>) 0;
    END LOOP;
    IF row_count OPERATOR(pg_catalog.=) 0 THEN
        PERFORM postrider.raise_not_written(outbox);
    END IF;
END
$$;

-- Arguments that are NULL for every event need no column.
CREATE OR REPLACE FUNCTION postrider.enqueue_all(
    outbox regclass, topics text[], payloads anyarray, idempotency_keys text[] DEFAULT NULL, ordering_keys text[] DEFAULT NULL,
    tenants text[] DEFAULT NULL, headers json[] DEFAULT NULL, traceparents text[] DEFAULT NULL, types text[] DEFAULT NULL,
    content_types text[] DEFAULT NULL, partitions int[] DEFAULT NULL, checked boolean DEFAULT false)
    RETURNS text[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    event_count CONSTANT int := coalesce(pg_catalog.cardinality(topics), pg_catalog.cardinality(payloads), 0);
    with_keys   boolean;
    names       pg_catalog.text[] := topics;
    keys        pg_catalog.text[] := idempotency_keys;
    prefixes    pg_catalog.text[];
    problem     pg_catalog.text[];
    event       pg_catalog.record;
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
    parts := postrider.insert_parts(outbox, pg_catalog.array_remove(ARRAY['payload',
        CASE WHEN pg_catalog.num_nonnulls(VARIADIC topics) OPERATOR(pg_catalog.>) 0 THEN 'topic' END,
        CASE WHEN pg_catalog.num_nonnulls(VARIADIC idempotency_keys) OPERATOR(pg_catalog.>) 0 THEN 'idempotency_key' END,
        CASE WHEN pg_catalog.num_nonnulls(VARIADIC ordering_keys) OPERATOR(pg_catalog.>) 0 THEN 'ordering_key' END,
        CASE WHEN pg_catalog.num_nonnulls(VARIADIC tenants) OPERATOR(pg_catalog.>) 0 THEN 'tenant' END,
        CASE WHEN pg_catalog.num_nonnulls(VARIADIC headers) OPERATOR(pg_catalog.>) 0 THEN 'headers' END,
        CASE WHEN pg_catalog.num_nonnulls(VARIADIC traceparents) OPERATOR(pg_catalog.>) 0 THEN 'traceparent' END,
        CASE WHEN pg_catalog.num_nonnulls(VARIADIC types) OPERATOR(pg_catalog.>) 0 THEN 'type' END,
        CASE WHEN pg_catalog.num_nonnulls(VARIADIC content_types) OPERATOR(pg_catalog.>) 0 THEN 'content_type' END,
        CASE WHEN pg_catalog.num_nonnulls(VARIADIC partitions) OPERATOR(pg_catalog.>) 0 THEN 'partition' END]::pg_catalog.text[],
        NULL::pg_catalog.text),
        CASE WHEN pg_catalog.pg_typeof(payloads)::pg_catalog.oid OPERATOR(pg_catalog.=) 199::pg_catalog.oid
             THEN 114 ELSE 17 END::pg_catalog.oid, true);
    IF parts.places IS NOT NULL THEN
        FOR event IN
            SELECT e.n, ARRAY[e.topic, NULL, e.key, e.ordering_key, e.tenant, e.header::pg_catalog.text, e.traceparent, e.type,
                              e.content_type, e.part::pg_catalog.text] AS given
              FROM ROWS FROM (pg_catalog.generate_series(1, event_count), pg_catalog.unnest(topics),
                              pg_catalog.unnest(idempotency_keys), pg_catalog.unnest(ordering_keys), pg_catalog.unnest(tenants),
                              pg_catalog.unnest(headers), pg_catalog.unnest(traceparents), pg_catalog.unnest(types),
                              pg_catalog.unnest(content_types), pg_catalog.unnest(partitions))
                   AS e (n, topic, key, ordering_key, tenant, header, traceparent, type, content_type, part)
        LOOP
            keys[event.n] := postrider.shared_key(parts.places, event.given);
            problem := postrider.shared_problem(outbox, parts.places, event.given);
            IF problem IS NOT NULL THEN
                PERFORM postrider.raise_problem(problem, pg_catalog.format('event %s of %s: ', event.n, event_count));
            END IF;
        END LOOP;
        PERFORM postrider.refuse_keys_of_tenants(outbox, keys, tenants);
    END IF;
    with_keys := coalesce(pg_catalog.num_nonnulls(VARIADIC keys), 0) OPERATOR(pg_catalog.>) 0;
    IF topics IS NULL OR NOT parts.has_topic THEN
        names := pg_catalog.array_fill(CASE WHEN NOT parts.has_topic THEN 'none'::pg_catalog.text END, ARRAY[event_count]);
    END IF;
    IF NOT checked OR parts.tenant_keys THEN
        -- An element of an array is never compressed, and a large one has four bytes of its own.
        SELECT c.n, c.problem INTO event
          FROM (SELECT e.n, coalesce(
                           postrider.event_problem(e.topic, pg_catalog.pg_column_size(e.payload) OPERATOR(pg_catalog.-) 4,
                               e.key, e.tenant, e.header, e.traceparent, e.part, parts.tenant_keys),
                           postrider.text_problem(e.ordering_key, e.type, e.content_type)) AS problem
                  FROM (SELECT pg_catalog.generate_series(1, event_count) AS n, pg_catalog.unnest(names) AS topic,
                               pg_catalog.unnest(payloads) AS payload, pg_catalog.unnest(keys) AS key,
                               pg_catalog.unnest(tenants) AS tenant, pg_catalog.unnest(headers) AS header,
                               pg_catalog.unnest(traceparents) AS traceparent, pg_catalog.unnest(partitions) AS part,
                               pg_catalog.unnest(ordering_keys) AS ordering_key, pg_catalog.unnest(types) AS type,
                               pg_catalog.unnest(content_types) AS content_type) AS e) AS c
         WHERE c.problem IS NOT NULL LIMIT 1;
        IF event.n IS NOT NULL THEN
            PERFORM postrider.raise_problem(event.problem, pg_catalog.format('event %s of %s: ', event.n, event_count));
        END IF;
    END IF;
    IF with_keys AND parts.key_type OPERATOR(pg_catalog.<>) 'text' THEN
        SELECT c.n, c.problem INTO event
          FROM (SELECT e.n, postrider.key_problem(e.key, parts.key_type, parts.is_key_flexible) AS problem
                  FROM pg_catalog.unnest(keys) WITH ORDINALITY AS e (key, n)) AS c
         WHERE c.problem IS NOT NULL ORDER BY c.n LIMIT 1;
        IF event.n IS NOT NULL THEN
            PERFORM postrider.raise_problem(event.problem, pg_catalog.format('event %s of %s: ', event.n, event_count));
        END IF;
    END IF;
    IF parts.key_type IS NOT NULL AND (NOT with_keys OR pg_catalog.array_position(keys, NULL::pg_catalog.text) IS NOT NULL) THEN
        prefixes := CASE WHEN parts.tenant_keys OR NOT parts.is_key_id THEN tenants END;
        keys := ARRAY(SELECT coalesce(e.key, postrider.new_key(e.prefix, parts.key_type))
                        FROM ROWS FROM (pg_catalog.unnest(names), pg_catalog.unnest(keys), pg_catalog.unnest(prefixes))
                             WITH ORDINALITY AS e (name, key, prefix, n)
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

CREATE FUNCTION postrider.enqueue_jsonb(
    topic text, payload jsonb, idempotency_key text DEFAULT NULL, ordering_key text DEFAULT NULL,
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

COMMENT ON FUNCTION postrider.enqueue_jsonb IS 'Like postrider.enqueue, for a payload of type jsonb.';

-- A column that is not text is cast to it; for others the constraint stays as it was in earlier versions.
CREATE OR REPLACE FUNCTION postrider.require_tenant_keys(outbox regclass) RETURNS boolean
    LANGUAGE plpgsql SET lock_timeout = '10s'
    AS $$
DECLARE
    tenant    pg_catalog.text;
    key       pg_catalog.text;
    is_text   boolean;
    rule      pg_catalog.record;
    is_valid  boolean;
    all_valid boolean := true;
    is_new    boolean := false;
BEGIN
    SELECT pg_catalog.max(c.name) FILTER (WHERE NOT c.is_key), pg_catalog.max(c.name) FILTER (WHERE c.is_key),
           pg_catalog.bool_and(c.is_text) FILTER (WHERE c.is_key)
      INTO tenant, key, is_text
      FROM (SELECT k.name OPERATOR(pg_catalog.=) 'idempotency_key' AS is_key,
                   t.typcategory OPERATOR(pg_catalog.=) 'S' AS is_text,
                   pg_catalog.format(CASE WHEN a.atttypid OPERATOR(pg_catalog.=) 25 THEN '%I' ELSE '%I::pg_catalog.text' END,
                                     a.attname) AS name
              FROM pg_catalog.unnest('{tenant,idempotency_key}'::pg_catalog.text[]) AS k (name)
             CROSS JOIN (SELECT (SELECT n.columns FROM postrider.outbox_columns n
                                  WHERE n.outbox OPERATOR(pg_catalog.=) require_tenant_keys.outbox::pg_catalog.oid) AS columns) AS m
              JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) require_tenant_keys.outbox::pg_catalog.oid
               AND a.attname OPERATOR(pg_catalog.=) postrider.column_of(m.columns, k.name)::pg_catalog.name
               AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
              JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.atttypid) AS c;
    IF tenant IS NULL OR key IS NULL THEN
        PERFORM postrider.raise_column_problem(outbox, outbox::pg_catalog.text, '{tenant,idempotency_key}', NULL);
    ELSIF tenant OPERATOR(pg_catalog.=) key OR NOT is_text THEN
        RAISE EXCEPTION 'in table % no idempotency key can begin with the tenant: %', outbox,
            CASE WHEN is_text THEN 'both are stored in the same column' ELSE 'its column is not text' END
            USING ERRCODE = 'invalid_parameter_value',
                  HINT = 'map tenant and idempotency_key to two columns, the latter of type text or varchar';
    END IF;
    FOR rule IN
        SELECT v.name, pg_catalog.format(v.condition, tenant, key) AS condition
          FROM (VALUES ('postrider_tenant_keys',
                        '%1$s IS NULL OR %1$s OPERATOR(pg_catalog.<>) '''' AND pg_catalog.strpos(%1$s, ''/'') OPERATOR(pg_catalog.=) 0
                         AND pg_catalog.starts_with(%2$s, %1$s OPERATOR(pg_catalog.||) ''/'')'),
                       ('postrider_tenantless_keys',
                        '%1$s IS NOT NULL OR pg_catalog.strpos(%2$s, ''/'') OPERATOR(pg_catalog.=) 0'))
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

DROP FUNCTION postrider.enqueue_parts;
