-- Where several processes share a store: the process that delivers the row. NULL where one process has the store alone.
ALTER TABLE outbox ADD COLUMN worker TEXT;
