-- What the cleaner of the outbox tables needs.

-- Whether the event of a row is parked, whatever its table is called by now. Ids can be long: an
-- index entry has room for 2,700 bytes.
CREATE INDEX undelivered_row ON postrider.undelivered (md5(row_id))
    WHERE status IN ('pending', 'processing', 'dead');
