-- The checks of an event mean what they meant when they were created, whatever the caller's search path:
-- Postgres reads such a body once. They still become part of the query that asks for many events.

CREATE OR REPLACE FUNCTION postrider.header_problem(headers json) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (SELECT ARRAY[format('headers can''t have the name "%s"', left(name, 60)),
                         'header names are not empty; id and idempotency-key are the event''s own']
              FROM json_object_keys(headers) AS name
             WHERE name IN ('', 'id', 'idempotency-key')
             LIMIT 1);

CREATE OR REPLACE FUNCTION postrider.event_problem(
    topic text, payload_bytes int, idempotency_key text, tenant text, headers json, traceparent text, "partition" int,
    tenant_keys boolean)
    RETURNS text[]
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN CASE
        WHEN topic IS NULL
            THEN ARRAY['topic is missing', 'name the Kafka topic of the event']
        -- Not one pattern for all of it: counting in patterns is slow.
        WHEN topic ~ '[^A-Za-z0-9._-]' OR topic IN ('', '.', '..') OR octet_length(topic) > 249
            THEN ARRAY[format('topic "%s" is not a name that Kafka takes', left(topic, 60)),
                       'use 1 to 249 of A-Z a-z 0-9 . _ - and neither "." nor ".."']
        WHEN payload_bytes > 16777216
            THEN ARRAY[format('payload has %s bytes', payload_bytes),
                       'at most 16 MiB can be published; put large things elsewhere and refer to them']
        WHEN idempotency_key = ''
            THEN ARRAY['idempotency_key is empty', 'leave it out (NULL) and one is generated']
        WHEN octet_length(idempotency_key) > 512
            THEN ARRAY[format('idempotency_key has %s bytes', octet_length(idempotency_key)),
                       'at most 512 bytes; use a digest of longer keys']
        WHEN tenant = ''
            THEN ARRAY['tenant is empty', 'leave it out (NULL) where there is none']
        WHEN octet_length(tenant) > 255
            THEN ARRAY[format('tenant has %s bytes', octet_length(tenant)),
                       'at most 255 bytes']
        WHEN tenant_keys AND strpos(tenant, '/') > 0
            THEN ARRAY['tenant contains "/"', 'it separates the tenant from the rest of the idempotency key']
        WHEN tenant_keys AND NOT starts_with(idempotency_key, tenant || '/')
            THEN ARRAY['idempotency_key does not begin with the tenant and "/"',
                       'this outbox keeps its tenants apart so (postrider.require_tenant_keys); put them in front of the key']
        WHEN octet_length(headers::text) > 1048576
            THEN ARRAY[format('headers have %s bytes', octet_length(headers::text)),
                       'at most 1 MiB; large things belong into the payload']
        WHEN octet_length(traceparent) > 65536
            THEN ARRAY[format('traceparent has %s bytes', octet_length(traceparent)),
                       'at most 64 KiB']
        WHEN json_typeof(headers) <> 'object'
            THEN ARRAY['headers are not a JSON object', 'for example {"source": "shop"}']
        WHEN traceparent !~ '^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?$'
          OR traceparent LIKE '00-%' AND length(traceparent) <> 55
            THEN ARRAY['traceparent is not a W3C trace context',
                       'for example 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01']
        WHEN "partition" < 0
            THEN ARRAY[format('partition is %s', "partition"), 'partitions count from 0']
        WHEN headers IS NOT NULL
            THEN postrider.header_problem(headers)
    END;

-- What the relay would refuse as too large.
CREATE FUNCTION postrider.text_problem(ordering_key text, type text, content_type text) RETURNS text[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN octet_length(ordering_key) > 65536
            THEN ARRAY[format('ordering_key has %s bytes', octet_length(ordering_key)),
                       'at most 64 KiB; use a digest of longer keys']
        WHEN octet_length(type) > 65536
            THEN ARRAY[format('type has %s bytes', octet_length(type)), 'at most 64 KiB']
        WHEN octet_length(content_type) > 65536
            THEN ARRAY[format('content_type has %s bytes', octet_length(content_type)), 'at most 64 KiB']
    END;
COMMENT ON FUNCTION postrider.text_problem IS 'Why texts of an event can''t be published, and the way out; NULL if nothing is known against them.';
