-- Only one process at a time writes a store, also a shared one: it delivers all rows.
ALTER TABLE outbox DROP COLUMN worker;
