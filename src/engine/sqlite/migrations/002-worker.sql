-- The process that delivered the row, when several processes wrote a shared store; else NULL. 003-no-worker.sql drops the column.
ALTER TABLE outbox ADD COLUMN worker TEXT;
