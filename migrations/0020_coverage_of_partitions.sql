-- A partition can be UNLOGGED for a while even if its table is listed by name.

ALTER TABLE postrider.coverage ADD COLUMN leaves jsonb;

COMMENT ON COLUMN postrider.coverage.leaves IS 'The partitions that have the rows of the table, and the TOAST table of each: another one means that the partition was rewritten, perhaps because it was UNLOGGED for a while. NULL: none, or not looked at yet.';
COMMENT ON COLUMN postrider.coverage.publication_owner IS 'The owner of the publication when it was last found intact. A new one changes xmin too, and counts as a change of options.';
