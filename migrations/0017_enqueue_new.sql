-- enqueue tells new events from those that are there already, and keys of tenants belong to tenants alone.
-- Like those of 0004 the functions run with the caller's rights and leave the search path alone, so every
-- name in them is qualified.

-- A key with "/" is a tenant's. Asked only where the table insists on it, so other tables lose nothing.
CREATE FUNCTION postrider.refuse_keys_of_tenants(outbox regclass, idempotency_keys text[], tenants text[])
    RETURNS void
    LANGUAGE plpgsql STABLE
    AS $$
DECLARE
    event_count CONSTANT int := pg_catalog.cardinality(idempotency_keys);
    bad bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_constraint c
                    WHERE c.conrelid OPERATOR(pg_catalog.=) refuse_keys_of_tenants.outbox::pg_catalog.oid
                      AND c.conname OPERATOR(pg_catalog.=) 'postrider_tenantless_keys'::pg_catalog.name) THEN
        RETURN;
    END IF;
    SELECT e.n INTO bad
      FROM ROWS FROM (pg_catalog.unnest(idempotency_keys), pg_catalog.unnest(tenants)) WITH ORDINALITY AS e (key, tenant, n)
     WHERE e.tenant IS NULL AND pg_catalog.strpos(e.key, '/') OPERATOR(pg_catalog.>) 0
     ORDER BY e.n LIMIT 1;
    IF bad IS NOT NULL THEN
        PERFORM postrider.raise_problem(
            ARRAY['idempotency_key contains "/" and the event has no tenant',
                  'in this outbox such keys are those of tenants (postrider.require_tenant_keys); name the tenant, or choose a key without "/"'],
            CASE WHEN event_count OPERATOR(pg_catalog.>) 1
                 THEN pg_catalog.format('event %s of %s: ', bad::pg_catalog.text, event_count::pg_catalog.text) ELSE '' END);
    END IF;
END
$$;

COMMENT ON FUNCTION postrider.refuse_keys_of_tenants IS 'Refuses events without a tenant whose key could be a tenant''s, where postrider.require_tenant_keys is in force.';

-- Two constraints: tables that have the first one from before get the second by the same call.
CREATE OR REPLACE FUNCTION postrider.require_tenant_keys(outbox regclass) RETURNS boolean
    LANGUAGE plpgsql SET lock_timeout = '10s'
    AS $$
DECLARE
    rule record;
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

COMMENT ON FUNCTION postrider.require_tenant_keys IS 'From now on the idempotency key of an event with a tenant must begin with the tenant and "/", and that of an event without one must not contain "/", so that tenants can''t meet and nobody can take a tenant''s keys. True if the rows that were there before keep to it; false: call it once more, in another transaction, to have them checked. A table that has the rule of an earlier version gets the rest of it by the same calls.';

CREATE FUNCTION postrider.enqueue_one_new(
    topic text, payload anyelement, payload_bytes int, idempotency_key text, ordering_key text, tenant text,
    headers json, traceparent text, type text, outbox regclass, content_type text, "partition" int,
    OUT id text, OUT is_new boolean)
    LANGUAGE plpgsql
    AS $$
DECLARE
    problem   text[];
    key       text := idempotency_key;
    parts     record;
    statement text;
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
        pg_catalog.pg_typeof(payload)::pg_catalog.text, false);
    problem := postrider.event_problem(topic, payload_bytes, idempotency_key, tenant, headers, traceparent, "partition",
        parts.tenant_keys);
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

COMMENT ON FUNCTION postrider.enqueue_one_new IS 'What all functions that write one event have in common.';

CREATE OR REPLACE FUNCTION postrider.enqueue_one(
    topic text, payload anyelement, payload_bytes int, idempotency_key text, ordering_key text, tenant text,
    headers json, traceparent text, type text, outbox regclass, content_type text, "partition" int)
    RETURNS text
    LANGUAGE plpgsql
    AS $$
BEGIN
    RETURN (postrider.enqueue_one_new(topic, payload, payload_bytes, idempotency_key, ordering_key, tenant, headers,
        traceparent, type, outbox, content_type, "partition")).id;
END
$$;

-- The default names the table when it is called, not now: it need not be there.
CREATE FUNCTION postrider.enqueue_new(
    topic text, payload json, idempotency_key text DEFAULT NULL, ordering_key text DEFAULT NULL,
    tenant text DEFAULT NULL, headers json DEFAULT NULL, traceparent text DEFAULT NULL, type text DEFAULT NULL,
    outbox regclass DEFAULT 'public.outbox'::text::regclass, content_type text DEFAULT NULL, "partition" int DEFAULT NULL)
    RETURNS TABLE (id text, is_new boolean)
    LANGUAGE plpgsql ROWS 1
    AS $$
BEGIN
    RETURN QUERY SELECT e.id, e.is_new FROM postrider.enqueue_one_new(topic, payload,
        pg_catalog.octet_length(payload::pg_catalog.text), idempotency_key, ordering_key, tenant, headers, traceparent,
        type, outbox, content_type, "partition") AS e;
END
$$;

COMMENT ON FUNCTION postrider.enqueue_new IS 'postrider.enqueue, which also tells whether the event was written (is_new) or the outbox had one with this topic and idempotency key already.';

CREATE FUNCTION postrider.enqueue_new_bytes(
    topic text, payload bytea, idempotency_key text DEFAULT NULL, ordering_key text DEFAULT NULL,
    tenant text DEFAULT NULL, headers json DEFAULT NULL, traceparent text DEFAULT NULL, type text DEFAULT NULL,
    outbox regclass DEFAULT 'public.outbox'::text::regclass, content_type text DEFAULT NULL, "partition" int DEFAULT NULL)
    RETURNS TABLE (id text, is_new boolean)
    LANGUAGE plpgsql ROWS 1
    AS $$
BEGIN
    RETURN QUERY SELECT e.id, e.is_new FROM postrider.enqueue_one_new(topic, payload,
        pg_catalog.octet_length(payload), idempotency_key, ordering_key, tenant, headers, traceparent,
        type, outbox, content_type, "partition") AS e;
END
$$;

COMMENT ON FUNCTION postrider.enqueue_new_bytes IS 'postrider.enqueue_new for a payload of bytes.';

-- Batches ask the new question first; the rest is what it was.
ALTER FUNCTION postrider.enqueue_many RENAME TO enqueue_all;

COMMENT ON FUNCTION postrider.enqueue_all IS 'Writes many events; called by postrider.enqueue_many alone.';

CREATE FUNCTION postrider.enqueue_many(
    outbox regclass, topics text[], payloads anyarray, idempotency_keys text[] DEFAULT NULL, ordering_keys text[] DEFAULT NULL,
    tenants text[] DEFAULT NULL, headers json[] DEFAULT NULL, traceparents text[] DEFAULT NULL, types text[] DEFAULT NULL,
    content_types text[] DEFAULT NULL, partitions int[] DEFAULT NULL, checked boolean DEFAULT false)
    RETURNS text[]
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF idempotency_keys IS NOT NULL THEN
        PERFORM postrider.refuse_keys_of_tenants(outbox, idempotency_keys, tenants);
    END IF;
    RETURN postrider.enqueue_all(outbox, topics, payloads, idempotency_keys, ordering_keys, tenants, headers,
        traceparents, types, content_types, partitions, checked);
END
$$;

COMMENT ON FUNCTION postrider.enqueue_many IS 'What postrider.enqueue_batch and postrider.enqueue_batch_bytes have in common. A caller that has checked the events can say so.';
