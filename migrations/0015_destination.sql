-- Where each slot's events go, so that they never go somewhere else by mistake.

ALTER TABLE postrider.progress
    ADD COLUMN cluster_id  text,
    ADD COLUMN environment text;

COMMENT ON COLUMN postrider.progress.cluster_id IS 'The Kafka cluster that the events of this slot are published to. NULL: not known yet. postrider refuses another one unless it is run with --accept-destination.';
COMMENT ON COLUMN postrider.progress.environment IS 'The value of relay.environment when it was first set. NULL: never set. postrider refuses another one unless it is run with --accept-destination.';
