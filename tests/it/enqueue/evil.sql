-- A schema full of impostors: for every function, operator and type that the functions of schema postrider
-- could mean, one that raises an error when it is found instead of Postgres's own.
CREATE SCHEMA evil;

CREATE FUNCTION evil.impostor() RETURNS text LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION 'an impostor was called'; END $$;

DO $$
DECLARE
    it    record;
    types CONSTANT text[] := ARRAY['text', 'int', 'bigint', 'oid', 'regclass', 'name', 'text[]', 'uuid', '"char"', 'smallint', 'varchar', 'jsonb', 'int[]', 'oid[]'];
BEGIN
    -- Every function of Postgres that is mentioned anywhere, for the same types; and for a few types where
    -- Postgres's own takes any.
    FOR it IN
        SELECT DISTINCT p.proname, pg_get_function_identity_arguments(p.oid) AS arguments,
               format_type(p.prorettype, NULL) AS result, p.proretset
          FROM pg_proc p
         WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a')
           AND EXISTS (SELECT FROM pg_proc ours WHERE ours.pronamespace = 'postrider'::regnamespace
                          AND ours.prosrc ~ ('\m' || p.proname || '\s*\('))
    LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS %s %s LANGUAGE plpgsql AS %L', it.proname, it.arguments,
                CASE WHEN it.proretset THEN 'SETOF' ELSE '' END, it.result,
                format('BEGIN RAISE EXCEPTION ''the impostor of %s was called''; END', it.proname));
        EXCEPTION WHEN OTHERS THEN
            NULL; -- Not a type that a function of ours can have.
        END;
    END LOOP;
    FOR it IN
        SELECT f.name, a.types FROM unnest('{format,concat,unnest,cardinality,array_remove,array_append,array_position,array_agg,
                string_agg,max,min,count,octet_length,convert_from,convert_to,coalesce,pg_typeof,quote_ident,concat_ws,array_to_string,
                array_fill,num_nonnulls,jsonb_exists,format_type,has_table_privilege,now,gen_random_uuid}'::text[]) AS f (name),
            unnest('{text,text[],"text,text","text[],text","text[],text[]","text,text,text","text,bigint,int","text,int",
                     "bytea,text","text,regclass","text,text,text,text","text,regclass,text","json[]","bytea[]","int[]",json,bytea}'::text[]) AS a (types)
    LOOP
        BEGIN
            EXECUTE format('CREATE FUNCTION evil.%I(%s) RETURNS text LANGUAGE sql AS ''SELECT evil.impostor()''',
                it.name, it.types);
        EXCEPTION WHEN duplicate_function THEN
            NULL;
        END;
    END LOOP;
    -- Every operator that is mentioned, between any two of these types.
    FOR it IN
        SELECT o.name, l.name AS l, r.name AS r
          FROM unnest('{=,<>,<,>,<=,>=,||,-,~,!~,!~*,~~,->>,?,<@}'::text[]) AS o (name),
               unnest(types) AS l (name),
               unnest(types) AS r (name)
    LOOP
        EXECUTE format('CREATE OR REPLACE FUNCTION evil.impostor(%s, %s) RETURNS boolean LANGUAGE plpgsql
            AS ''BEGIN RAISE EXCEPTION ''''the impostor of an operator was called''''; END''', it.l, it.r);
        EXECUTE format('CREATE OPERATOR evil.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = evil.impostor)', it.name, it.l, it.r);
    END LOOP;
END
$$;

-- Types: whatever is one of these fails at once.
CREATE DOMAIN evil.text AS pg_catalog.int4 CHECK (evil.impostor() IS NULL);
CREATE DOMAIN evil.json AS pg_catalog.int4 CHECK (evil.impostor() IS NULL);
CREATE DOMAIN evil.jsonb AS pg_catalog.int4 CHECK (evil.impostor() IS NULL);
CREATE DOMAIN evil.bytea AS pg_catalog.int4 CHECK (evil.impostor() IS NULL);
CREATE DOMAIN evil.oid AS pg_catalog.int4 CHECK (evil.impostor() IS NULL);
CREATE DOMAIN evil.regclass AS pg_catalog.int4 CHECK (evil.impostor() IS NULL);
CREATE DOMAIN evil.name AS pg_catalog.int4 CHECK (evil.impostor() IS NULL);
CREATE DOMAIN evil.record AS pg_catalog.int4 CHECK (evil.impostor() IS NULL);
CREATE DOMAIN evil.uuid AS pg_catalog.int4 CHECK (evil.impostor() IS NULL);
