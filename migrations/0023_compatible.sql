-- Which versions of postrider can work with this schema, and what exactly was applied.

ALTER TABLE postrider.schema_version
    ADD COLUMN compatible_since int,
    ADD COLUMN checksum         text;

COMMENT ON COLUMN postrider.schema_version.compatible_since IS 'A postrider that knows the schema up to this version, or a later one, can work with it. NULL: with this version alone. Only the row with the highest version counts.';
COMMENT ON COLUMN postrider.schema_version.checksum IS 'SHA-256 of the migration as it was applied. NULL: not known.';
