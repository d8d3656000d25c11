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

-- Writes a group, all or nothing. Returns its position; -1 when a row is not as the worker knows it, or a later group of the worker came
-- first; -2 when the worker is not living. The last `checks` entries of the lists are only compared. `known` is NULL for a row that is
-- written without a comparison.
CREATE OR REPLACE FUNCTION conch.write_group(
  sender text, group_number bigint, places text[], ids text[], texts text[], known bigint[], checks integer
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  reached bigint;
  former record;
  changes integer := cardinality(places) - checks;
BEGIN
  SELECT log.position INTO reached FROM conch.log FOR UPDATE;
  SELECT workers.number, workers.position, workers.state INTO former FROM conch.workers WHERE worker = sender;
  IF former.number = group_number THEN RETURN former.position; END IF;
  -- A request that was cut off can arrive after later ones. Nobody waits for its answer.
  IF former.number > group_number THEN RETURN -1; END IF;
  IF former.state IS DISTINCT FROM 'living' THEN RETURN -2; END IF;
  IF EXISTS (
    SELECT 1 FROM unnest(places, ids, known) AS given (place, id, known)
    LEFT JOIN conch.rows USING (place, id)
    WHERE given.known IS NOT NULL AND coalesce(rows.position, 0) <> given.known
  ) THEN RETURN -1; END IF;
  IF changes > 0 THEN
    reached := reached + 1;
    INSERT INTO conch.rows (place, id, position, row)
      SELECT given.place, given.id, reached, given.row
      FROM unnest(places[1:changes], ids[1:changes], texts) AS given (place, id, row)
      ON CONFLICT (place, id) DO UPDATE SET position = excluded.position, row = excluded.row;
    UPDATE conch.log SET position = reached;
  END IF;
  UPDATE conch.workers SET number = group_number, position = reached WHERE worker = sender;
  RETURN reached;
END $$;

-- Adds a worker, with the name of its process for people and the lowest free slot, and returns the slot. Without a free slot, adds
-- nothing and returns NULL.
CREATE OR REPLACE FUNCTION conch.join_log(sender text, slots integer, named text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
  free integer;
BEGIN
  PERFORM 1 FROM conch.log FOR UPDATE;
  SELECT min(each) INTO free FROM generate_series(0, slots - 1) AS each
    WHERE NOT EXISTS (SELECT 1 FROM conch.workers WHERE state = 'living' AND slot = each);
  IF free IS NOT NULL THEN
    INSERT INTO conch.workers (worker, name, slot, state, beat) VALUES (sender, named, free, 'living', clock_timestamp());
  END IF;
  RETURN free;
END $$;

-- Makes a living worker the leader unless another living worker leads. Returns whether it leads.
CREATE OR REPLACE FUNCTION conch.lead(sender text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  leads boolean;
BEGIN
  PERFORM 1 FROM conch.log FOR UPDATE;
  UPDATE conch.log SET leader = sender
    WHERE EXISTS (SELECT 1 FROM conch.workers WHERE worker = sender AND state = 'living')
      AND NOT EXISTS (SELECT 1 FROM conch.workers WHERE worker = log.leader AND state = 'living' AND worker <> sender)
    RETURNING true INTO leads;
  RETURN coalesce(leads, false);
END $$;

-- Ends a living worker with the state `becomes`. Waits for a group that is being written. No later group of the worker is written.
CREATE OR REPLACE FUNCTION conch.end_worker(whose text, becomes text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM conch.log FOR UPDATE;
  UPDATE conch.workers SET state = becomes WHERE worker = whose AND state = 'living';
END $$;

-- Ends the workers that did not beat for dead_ms milliseconds, unless the sender itself did not beat for fresh_ms. Waits for a group
-- that is being written.
DROP FUNCTION IF EXISTS conch.bury_silent(double precision);
CREATE OR REPLACE FUNCTION conch.bury_silent(sender text, dead_ms double precision, fresh_ms double precision)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  dead_since timestamptz := clock_timestamp() - dead_ms * interval '1 millisecond';
  fresh_since timestamptz := clock_timestamp() - fresh_ms * interval '1 millisecond';
BEGIN
  IF NOT EXISTS (SELECT 1 FROM conch.workers WHERE state = 'living' AND beat < dead_since) THEN RETURN; END IF;
  PERFORM 1 FROM conch.log FOR UPDATE;
  UPDATE conch.workers SET state = 'buried'
    WHERE state = 'living' AND beat < dead_since
      AND EXISTS (SELECT 1 FROM conch.workers AS own WHERE own.worker = sender AND own.beat >= fresh_since);
END $$;
