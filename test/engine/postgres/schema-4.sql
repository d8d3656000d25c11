-- The tables and functions of a shared log, in one schema of a database. `log` has one row. Writing a group locks that row, so groups
-- are written one after the other. `rows` holds each shared row in its newest form, with the position of its last change.
CREATE SCHEMA IF NOT EXISTS conch;
CREATE TABLE IF NOT EXISTS conch.log (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  id text NOT NULL,
  version integer NOT NULL,
  position bigint NOT NULL,
  leader text
);
CREATE TABLE IF NOT EXISTS conch.rows (
  place text NOT NULL,
  id text NOT NULL,
  position bigint NOT NULL,
  row text,
  PRIMARY KEY (place, id)
) WITH (fillfactor = 80);
CREATE INDEX IF NOT EXISTS rows_position ON conch.rows (position);
CREATE TABLE IF NOT EXISTS conch.workers (
  worker text PRIMARY KEY,
  name text NOT NULL,
  slot integer NOT NULL,
  state text NOT NULL CHECK (state IN ('living', 'buried', 'left')),
  beat timestamptz NOT NULL,
  number bigint NOT NULL DEFAULT 0,
  position bigint NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX IF NOT EXISTS workers_slot ON conch.workers (slot) WHERE state = 'living';

CREATE FUNCTION conch.write_group(text, bigint, text[], text[], text[], bigint[], integer) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
CREATE FUNCTION conch.join_log(text, integer, text) RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION conch.end_worker(text, text) RETURNS void LANGUAGE sql AS 'SELECT';
INSERT INTO conch.log (id, version, position, leader) VALUES ('old', 4, 7, 'w1');
INSERT INTO conch.workers (worker, name, slot, state, beat) VALUES ('w1', 'host:1', 0, 'left', now());
INSERT INTO conch.rows (place, id, position, row) VALUES
  ('memory', '["a","b"]', 1, '{}'), ('ends', '1', 2, '2048'), ('gone', 'w0', 2, '1'), ('ledger', '1/2048/0', 7, '{}');
