-- Anybody with a login may take an advisory lock, and keep it; this table can be locked only by roles that
-- were granted something. No migration ever alters it: the session that holds it is not the one that migrates.

CREATE TABLE postrider.command_lock ();

COMMENT ON TABLE postrider.command_lock IS 'Without rows. postrider migrate, recover and teardown lock it while they change what this schema describes: one at a time.';

-- Who may store progress may recover, and compares the version of the schema first.
DO $$
DECLARE
    grantee oid;
BEGIN
    FOR grantee IN
        SELECT DISTINCT a.grantee FROM pg_catalog.pg_class c, pg_catalog.aclexplode(c.relacl) AS a
         WHERE c.oid = 'postrider.progress'::regclass AND a.privilege_type = 'UPDATE'
           AND a.grantee NOT IN (0, c.relowner)
    LOOP
        EXECUTE format('GRANT UPDATE ON postrider.command_lock TO %I', pg_get_userbyid(grantee));
        EXECUTE format('GRANT SELECT ON postrider.schema_version TO %I', pg_get_userbyid(grantee));
    END LOOP;
END
$$;
