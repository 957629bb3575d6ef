-- The way into an outbox: functions that applications call inside their own transactions. All of them
-- run with the caller's rights. They see to their own names, and leave the search path alone: the
-- outbox may have triggers that rely on it.

CREATE FUNCTION postrider.header_problem(headers json) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
    SELECT ARRAY[pg_catalog.format('headers can''t have the name "%s"', pg_catalog.left(name, 60)),
                 'header names are not empty; id and idempotency-key are the event''s own']
      FROM pg_catalog.json_object_keys(headers) AS name
     WHERE name IN ('', 'id', 'idempotency-key')
     LIMIT 1
    $$;

COMMENT ON FUNCTION postrider.header_problem IS 'Which name of the headers can''t be, and the way out.';

-- One expression: where it is asked for many events it becomes part of the query.
CREATE FUNCTION postrider.event_problem(
    topic text, payload_bytes int, idempotency_key text, tenant text, headers json, traceparent text, "partition" int,
    tenant_keys boolean)
    RETURNS text[]
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT CASE
        WHEN topic IS NULL
            THEN ARRAY['topic is missing', 'name the Kafka topic of the event']
        -- Not one pattern for all of it: counting in patterns is slow.
        WHEN topic ~ '[^A-Za-z0-9._-]' OR topic IN ('', '.', '..') OR pg_catalog.octet_length(topic) > 249
            THEN ARRAY[pg_catalog.format('topic "%s" is not a name that Kafka takes', pg_catalog.left(topic, 60)),
                       'use 1 to 249 of A-Z a-z 0-9 . _ - and neither "." nor ".."']
        WHEN payload_bytes > 16777216
            THEN ARRAY[pg_catalog.format('payload has %s bytes', payload_bytes),
                       'at most 16 MiB can be published; put large things elsewhere and refer to them']
        WHEN idempotency_key = ''
            THEN ARRAY['idempotency_key is empty', 'leave it out (NULL) and one is generated']
        WHEN pg_catalog.octet_length(idempotency_key) > 512
            THEN ARRAY[pg_catalog.format('idempotency_key has %s bytes', pg_catalog.octet_length(idempotency_key)),
                       'at most 512 bytes; use a digest of longer keys']
        WHEN tenant = ''
            THEN ARRAY['tenant is empty', 'leave it out (NULL) where there is none']
        WHEN pg_catalog.octet_length(tenant) > 255
            THEN ARRAY[pg_catalog.format('tenant has %s bytes', pg_catalog.octet_length(tenant)),
                       'at most 255 bytes']
        WHEN tenant_keys AND pg_catalog.strpos(tenant, '/') > 0
            THEN ARRAY['tenant contains "/"', 'it separates the tenant from the rest of the idempotency key']
        WHEN tenant_keys AND NOT pg_catalog.starts_with(idempotency_key, tenant || '/')
            THEN ARRAY['idempotency_key does not begin with the tenant and "/"',
                       'this outbox keeps its tenants apart so (postrider.require_tenant_keys); put them in front of the key']
        WHEN pg_catalog.json_typeof(headers) <> 'object'
            THEN ARRAY['headers are not a JSON object', 'for example {"source": "shop"}']
        WHEN traceparent !~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$'
          OR traceparent LIKE '00-%' AND pg_catalog.length(traceparent) <> 55
            THEN ARRAY['traceparent is not a W3C trace context',
                       'for example 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01']
        WHEN "partition" < 0
            THEN ARRAY[pg_catalog.format('partition is %s', "partition"), 'partitions count from 0']
        WHEN headers IS NOT NULL
            THEN postrider.header_problem(headers)
    END
    $$;

COMMENT ON FUNCTION postrider.event_problem IS 'Why an event can''t be published, and the way out; NULL if nothing is known against it. Never holds a payload.';

-- The error names no payload, as Postgres's own would.
CREATE FUNCTION postrider.payload_text(payload bytea, column_type text) RETURNS text
    LANGUAGE plpgsql STABLE STRICT
    AS $$
DECLARE
    payload_text text;
BEGIN
    payload_text := convert_from(payload, 'UTF8');
    IF column_type IN ('json', 'jsonb') THEN
        PERFORM payload_text::json;
    END IF;
    RETURN payload_text;
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'payload is not what column payload of type % takes', column_type
        USING ERRCODE = 'invalid_parameter_value',
              HINT = 'for bytes of any kind the column must be bytea; json and text take UTF-8 only';
END
$$;

COMMENT ON FUNCTION postrider.payload_text IS 'A payload of bytes for a column of text or JSON.';

-- What an INSERT into the table consists of. Asked each time: tables are altered while sessions go on.
-- `given` are the columns to be written; a column's number is that of its parameter.
CREATE FUNCTION postrider.enqueue_parts(
    outbox regclass, given text[], payload_type text, many boolean,
    OUT names text, OUT expressions text, OUT sources text, OUT id text, OUT key_type text,
    OUT tenant_keys boolean)
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    known CONSTANT text[] := '{topic,payload,idempotency_key,ordering_key,tenant,headers,traceparent,type,content_type,partition}';
    missing text;
BEGIN
    tenant_keys := 'tenant' = ANY (given) AND EXISTS (
        SELECT FROM pg_catalog.pg_constraint WHERE conrelid = outbox AND conname = 'postrider_tenant_keys');
    -- A table as migrate makes it: a shorter way, for most of the time goes into questions like the next one.
    IF payload_type = 'json' AND 11 = (
        SELECT count(*) FROM pg_catalog.pg_attribute
         WHERE attrelid = outbox AND (attname, atttypid) IN (
               ('id', 20), ('topic', 25), ('payload', 114), ('idempotency_key', 25), ('ordering_key', 25),
               ('tenant', 25), ('headers', 114), ('traceparent', 25), ('type', 25), ('content_type', 25),
               ('partition', 23))) THEN
        SELECT string_agg(name, ', '),
               string_agg(CASE WHEN many THEN 'e.' || name ELSE '$' || array_position(known, name) END, ', '),
               string_agg('unnest($' || array_position(known, name) || ') AS ' || name, ', ')
          INTO names, expressions, sources
          FROM unnest(CASE WHEN 'idempotency_key' = ANY (given) THEN given
                           ELSE given || 'idempotency_key'::text END) AS name;
        id := 'id';
        key_type := 'text';
        RETURN;
    END IF;
    WITH wanted (number, name, given_type, value) AS MATERIALIZED (
        SELECT *, CASE WHEN many THEN 'e.' || quote_ident(name) ELSE '$' || number END
          FROM (VALUES (1, 'topic', 'text'), (2, 'payload', payload_type), (3, 'idempotency_key', 'text'),
                       (4, 'ordering_key', 'text'), (5, 'tenant', 'text'), (6, 'headers', 'json'),
                       (7, 'traceparent', 'text'), (8, 'type', 'text'), (9, 'content_type', 'text'),
                       (10, 'partition', 'integer')) AS known (number, name, given_type)
         WHERE name = ANY (given) OR name = 'idempotency_key'
    ), found AS (
        SELECT wanted.*, format_type(CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END, NULL) AS type
          FROM wanted
          LEFT JOIN (pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid)
                 ON a.attrelid = outbox AND a.attname = wanted.name AND a.attnum > 0 AND NOT a.attisdropped
    ), written AS (
        SELECT *, CASE
                   WHEN type = given_type THEN value
                   WHEN given_type = 'bytea' THEN format('postrider.payload_text(%s, %L)::%s', value, type, type)
                   WHEN type = 'bytea' THEN format('convert_to(%s::text, ''UTF8'')', value)
                   ELSE format('%s::text::%s', value, type)
               END AS expression
          FROM found
         WHERE type IS NOT NULL OR name = ANY (given)
         ORDER BY number
    )
    SELECT string_agg(quote_ident(name), ', '), string_agg(expression, ', '), 
           string_agg(format('unnest($%s) AS %I', number, name), ', '),
           max(type) FILTER (WHERE name = 'idempotency_key'), (array_agg(name) FILTER (WHERE type IS NULL))[1]
      INTO names, expressions, sources, key_type, missing
      FROM written;
    id := CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = outbox AND attname = 'id')
               THEN 'id' ELSE 'NULL' END;
    IF missing IN ('topic', 'payload') THEN
        RAISE EXCEPTION 'table % has no column %', outbox, missing
            USING ERRCODE = 'undefined_column',
                  HINT = 'only tables with the names of postrider''s own columns can be written by this function; if yours have others, INSERT by hand';
    ELSIF missing IS NOT NULL THEN
        RAISE EXCEPTION 'table % has no column %', outbox, missing
            USING ERRCODE = 'undefined_column',
                  HINT = format('leave %s out, or add the column to the table', missing);
    END IF;
END
$$;

COMMENT ON FUNCTION postrider.enqueue_parts IS 'The parts of an INSERT of these columns into an outbox, whatever the types of its columns.';

CREATE FUNCTION postrider.raise_problem(problem text[], which text DEFAULT '') RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION '%', which || problem[1] USING ERRCODE = 'invalid_parameter_value', HINT = problem[2];
END
$$;

-- A statement of its own, for a snapshot of its own: the one that ran into the row began before it.
CREATE FUNCTION postrider.find_enqueued(outbox regclass, topics text[], idempotency_keys text[])
    RETURNS TABLE (number bigint, id text)
    LANGUAGE plpgsql
    AS $$
DECLARE
    parts record;
BEGIN
    parts := postrider.enqueue_parts(outbox, '{topic,payload,idempotency_key}', 'json', true);
    RETURN QUERY EXECUTE format(
        'SELECT e.n, o.id FROM unnest($1, $2) WITH ORDINALITY AS e (topic, idempotency_key, n)
          CROSS JOIN LATERAL (SELECT %s::text AS id FROM %s o
                               WHERE o.topic = e.topic AND o.idempotency_key = e.idempotency_key::%s LIMIT 1) o',
        parts.id, outbox, parts.key_type)
        USING topics, idempotency_keys;
END
$$;

COMMENT ON FUNCTION postrider.find_enqueued IS 'The ids of events that the outbox has already.';

CREATE FUNCTION postrider.raise_not_written(outbox regclass) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'table % takes no such event, and has none with its topic and idempotency_key', outbox
        USING ERRCODE = 'unique_violation',
              HINT = 'look for a unique index on other columns, or a trigger that drops rows';
END
$$;

-- A key of its own for an event that has none; one that keeps to the tenant rule, too.
CREATE FUNCTION postrider.new_key(tenant text, key_type text) RETURNS text
    LANGUAGE sql VOLATILE PARALLEL SAFE
    AS $$
    SELECT CASE WHEN tenant IS NULL OR key_type = 'uuid' THEN pg_catalog.gen_random_uuid()::text
                ELSE tenant || '/' || pg_catalog.gen_random_uuid() END
    $$;

CREATE FUNCTION postrider.enqueue_one(
    topic text, payload anyelement, payload_bytes int, idempotency_key text, ordering_key text, tenant text,
    headers json, traceparent text, type text, outbox regclass, content_type text, "partition" int)
    RETURNS text
    LANGUAGE plpgsql
    AS $$
DECLARE
    problem   text[];
    key       text := idempotency_key;
    parts     record;
    statement text;
    found_id  text;
    row_count int;
BEGIN
    parts := postrider.enqueue_parts(outbox, array_remove(ARRAY['topic', 'payload',
        CASE WHEN idempotency_key IS NOT NULL THEN 'idempotency_key' END,
        CASE WHEN ordering_key IS NOT NULL THEN 'ordering_key' END,
        CASE WHEN tenant IS NOT NULL THEN 'tenant' END,
        CASE WHEN headers IS NOT NULL THEN 'headers' END,
        CASE WHEN traceparent IS NOT NULL THEN 'traceparent' END,
        CASE WHEN type IS NOT NULL THEN 'type' END,
        CASE WHEN content_type IS NOT NULL THEN 'content_type' END,
        CASE WHEN "partition" IS NOT NULL THEN 'partition' END], NULL), pg_typeof(payload)::text, false);
    problem := postrider.event_problem(topic, payload_bytes, idempotency_key, tenant, headers, traceparent, "partition",
        parts.tenant_keys);
    IF problem IS NOT NULL THEN
        PERFORM postrider.raise_problem(problem);
    END IF;
    IF key IS NULL THEN
        key := postrider.new_key(tenant, parts.key_type);
    END IF;
    -- Without a target: a partitioned table has no unique key to name.
    statement := format('INSERT INTO %s (%s) VALUES (%s)%s RETURNING %s::text', outbox, parts.names, parts.expressions,
        CASE WHEN idempotency_key IS NULL THEN '' ELSE ' ON CONFLICT DO NOTHING' END, parts.id);
    -- What was in the way can be gone at the second look; who would be so unlucky ten times?
    FOR attempt IN 1 .. 10 LOOP
        EXECUTE statement INTO found_id
            USING topic, payload, key, ordering_key, tenant, headers, traceparent, type, content_type, "partition";
        GET DIAGNOSTICS row_count = ROW_COUNT;
        EXIT WHEN row_count > 0 OR idempotency_key IS NULL;
        SELECT id INTO found_id FROM postrider.find_enqueued(outbox, ARRAY[topic], ARRAY[key]);
        GET DIAGNOSTICS row_count = ROW_COUNT;
        EXIT WHEN row_count > 0;
    END LOOP;
    IF row_count = 0 THEN
        PERFORM postrider.raise_not_written(outbox);
    END IF;
    RETURN found_id;
END
$$;

COMMENT ON FUNCTION postrider.enqueue_one IS 'What postrider.enqueue and postrider.enqueue_bytes have in common.';

-- The default names the table when it is called, not now: it need not be there.
CREATE FUNCTION postrider.enqueue(
    topic text, payload json, idempotency_key text DEFAULT NULL, ordering_key text DEFAULT NULL,
    tenant text DEFAULT NULL, headers json DEFAULT NULL, traceparent text DEFAULT NULL, type text DEFAULT NULL,
    outbox regclass DEFAULT 'public.outbox'::text::regclass, content_type text DEFAULT NULL, "partition" int DEFAULT NULL)
    RETURNS text
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN postrider.enqueue_one(topic, payload, octet_length(payload::text), idempotency_key, ordering_key, tenant,
        headers, traceparent, type, outbox, content_type, "partition");
END
$$;

COMMENT ON FUNCTION postrider.enqueue IS 'Writes an event to the outbox and returns its id. If the outbox has an event with this topic and idempotency key, nothing is written and that event''s id returned.';

CREATE FUNCTION postrider.enqueue_bytes(
    topic text, payload bytea, idempotency_key text DEFAULT NULL, ordering_key text DEFAULT NULL,
    tenant text DEFAULT NULL, headers json DEFAULT NULL, traceparent text DEFAULT NULL, type text DEFAULT NULL,
    outbox regclass DEFAULT 'public.outbox'::text::regclass, content_type text DEFAULT NULL, "partition" int DEFAULT NULL)
    RETURNS text
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN postrider.enqueue_one(topic, payload, octet_length(payload), idempotency_key, ordering_key, tenant,
        headers, traceparent, type, outbox, content_type, "partition");
END
$$;

COMMENT ON FUNCTION postrider.enqueue_bytes IS 'postrider.enqueue for a payload of bytes.';

CREATE FUNCTION postrider.enqueue_many(
    outbox regclass, topics text[], payloads anyarray, idempotency_keys text[] DEFAULT NULL, ordering_keys text[] DEFAULT NULL,
    tenants text[] DEFAULT NULL, headers json[] DEFAULT NULL, traceparents text[] DEFAULT NULL, types text[] DEFAULT NULL,
    content_types text[] DEFAULT NULL, partitions int[] DEFAULT NULL, checked boolean DEFAULT false)
    RETURNS text[]
    LANGUAGE plpgsql
    AS $$
DECLARE
    event_count CONSTANT int := coalesce(cardinality(topics), 0);
    with_keys   CONSTANT boolean := coalesce(cardinality(array_remove(idempotency_keys, NULL)), 0) > 0;
    keys        text[] := idempotency_keys;
    bad         record;
    parts       record;
    insert_all  text;
    and_return  text;
    ids         text[];
    id_count    int;
BEGIN
    IF event_count <> ANY (ARRAY[coalesce(cardinality(payloads), 0), cardinality(idempotency_keys), cardinality(ordering_keys),
            cardinality(tenants), cardinality(headers), cardinality(traceparents), cardinality(types),
            cardinality(content_types), cardinality(partitions)]) THEN
        PERFORM postrider.raise_problem(ARRAY['the arrays differ in length',
            'give each array one element per event, NULL where there is nothing; or leave the array out']);
    END IF;
    IF event_count = 0 THEN
        RETURN '{}';
    END IF;
    parts := postrider.enqueue_parts(outbox, array_remove(ARRAY['topic', 'payload',
        CASE WHEN with_keys THEN 'idempotency_key' END,
        CASE WHEN ordering_keys IS NOT NULL THEN 'ordering_key' END,
        CASE WHEN tenants IS NOT NULL THEN 'tenant' END,
        CASE WHEN headers IS NOT NULL THEN 'headers' END,
        CASE WHEN traceparents IS NOT NULL THEN 'traceparent' END,
        CASE WHEN types IS NOT NULL THEN 'type' END,
        CASE WHEN content_types IS NOT NULL THEN 'content_type' END,
        CASE WHEN partitions IS NOT NULL THEN 'partition' END], NULL), rtrim(pg_typeof(payloads)::text, '[]'), true);
    IF NOT checked OR parts.tenant_keys THEN
        -- An element of an array is never compressed, and a large one has four bytes of its own.
        SELECT n, problem INTO bad
          FROM (SELECT n, postrider.event_problem(e.topic, pg_column_size(e.payload) - 4, e.key, e.tenant, e.header,
                                                  e.traceparent, e.part, parts.tenant_keys) AS problem
                  FROM (SELECT generate_series(1, event_count) AS n, unnest(topics) AS topic, unnest(payloads) AS payload,
                               unnest(idempotency_keys) AS key, unnest(tenants) AS tenant, unnest(headers) AS header,
                               unnest(traceparents) AS traceparent, unnest(partitions) AS part) AS e) AS checked
         WHERE problem IS NOT NULL LIMIT 1;
        IF bad.n IS NOT NULL THEN
            PERFORM postrider.raise_problem(bad.problem, format('event %s of %s: ', bad.n, event_count));
        END IF;
    END IF;
    IF parts.key_type IS NOT NULL AND (NOT with_keys OR array_position(keys, NULL) IS NOT NULL) THEN
        keys := ARRAY(SELECT coalesce(e.key, postrider.new_key(e.tenant, parts.key_type))
                        FROM unnest(topics, idempotency_keys, tenants) WITH ORDINALITY AS e (topic, key, tenant, n)
                       ORDER BY n);
    END IF;
    -- Arrays that are unnested side by side keep their order, and nothing here can change it. (In FROM each
    -- of them would be stored first, which is a tenth of all that is done here.)
    insert_all := format('WITH written AS (INSERT INTO %s (%s) SELECT %s FROM (SELECT %s) AS e',
        outbox, parts.names, parts.expressions, parts.sources);
    and_return := format(' RETURNING %s AS id) SELECT array_agg(id)::text[], count(*) FROM written', parts.id);
    IF NOT with_keys THEN
        EXECUTE insert_all || and_return INTO ids, id_count
            USING topics, payloads, keys, ordering_keys, tenants, headers, traceparents, types, content_types, partitions;
    ELSE
        -- Most batches hold nothing twice, and ON CONFLICT makes an insert half as dear again.
        BEGIN
            EXECUTE insert_all || and_return INTO ids, id_count
                USING topics, payloads, keys, ordering_keys, tenants, headers, traceparents, types, content_types, partitions;
        EXCEPTION WHEN unique_violation THEN
            id_count := 0;
        END;
        -- As in enqueue_one.
        FOR attempt IN 1 .. 10 LOOP
            EXIT WHEN id_count = event_count;
            EXECUTE insert_all || ' ON CONFLICT DO NOTHING' || and_return INTO ids, id_count
                USING topics, payloads, keys, ordering_keys, tenants, headers, traceparents, types, content_types, partitions;
            EXIT WHEN id_count = event_count;
            SELECT array_agg(id ORDER BY number), count(*) INTO ids, id_count
              FROM postrider.find_enqueued(outbox, topics, keys);
        END LOOP;
    END IF;
    IF id_count < event_count THEN
        PERFORM postrider.raise_not_written(outbox);
    END IF;
    RETURN ids;
END
$$;

COMMENT ON FUNCTION postrider.enqueue_many IS 'What postrider.enqueue_batch and postrider.enqueue_batch_bytes have in common. Who calls it himself can say that the events are checked.';

CREATE FUNCTION postrider.enqueue_batch(
    outbox regclass, topics text[], payloads json[], idempotency_keys text[] DEFAULT NULL, ordering_keys text[] DEFAULT NULL,
    tenants text[] DEFAULT NULL, headers json[] DEFAULT NULL, traceparents text[] DEFAULT NULL, types text[] DEFAULT NULL,
    content_types text[] DEFAULT NULL, partitions int[] DEFAULT NULL)
    RETURNS text[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN postrider.enqueue_many(outbox, topics, payloads, idempotency_keys, ordering_keys, tenants, headers,
        traceparents, types, content_types, partitions);
END
$$;

COMMENT ON FUNCTION postrider.enqueue_batch IS 'postrider.enqueue for many events: an array for each argument. They are written, and published, in the order of the arrays, and so are the ids that it returns.';

CREATE FUNCTION postrider.enqueue_batch_bytes(
    outbox regclass, topics text[], payloads bytea[], idempotency_keys text[] DEFAULT NULL, ordering_keys text[] DEFAULT NULL,
    tenants text[] DEFAULT NULL, headers json[] DEFAULT NULL, traceparents text[] DEFAULT NULL, types text[] DEFAULT NULL,
    content_types text[] DEFAULT NULL, partitions int[] DEFAULT NULL)
    RETURNS text[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN postrider.enqueue_many(outbox, topics, payloads, idempotency_keys, ordering_keys, tenants, headers,
        traceparents, types, content_types, partitions);
END
$$;

COMMENT ON FUNCTION postrider.enqueue_batch_bytes IS 'postrider.enqueue_batch for payloads of bytes.';

-- Adding a constraint that says nothing about the rows that are there locks the table for a moment only,
-- and looking at those rows later keeps nobody from writing; in one transaction the lock would stay.
CREATE FUNCTION postrider.require_tenant_keys(outbox regclass) RETURNS boolean
    LANGUAGE plpgsql SET lock_timeout = '10s'
    AS $$
DECLARE
    valid boolean := (SELECT convalidated FROM pg_catalog.pg_constraint
                       WHERE conrelid = outbox AND conname = 'postrider_tenant_keys');
BEGIN
    IF valid IS NULL THEN
        EXECUTE format(
            'ALTER TABLE %s ADD CONSTRAINT postrider_tenant_keys CHECK (tenant IS NULL OR tenant <> '''' AND
             strpos(tenant, ''/'') = 0 AND starts_with(idempotency_key, tenant || ''/'')) NOT VALID', outbox);
        RETURN false;
    END IF;
    IF NOT valid THEN
        EXECUTE format('ALTER TABLE %s VALIDATE CONSTRAINT postrider_tenant_keys', outbox);
    END IF;
    RETURN true;
END
$$;

COMMENT ON FUNCTION postrider.require_tenant_keys IS 'From now on the idempotency key of an event with a tenant must begin with the tenant and "/", so that tenants can''t meet. True if the rows that were there before keep to it; false: call it once more, in another transaction, to have them checked.';
