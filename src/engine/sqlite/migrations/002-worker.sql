-- The process that delivers the row, when several processes share the store. NULL when one process has the store alone.
ALTER TABLE outbox ADD COLUMN worker TEXT;
