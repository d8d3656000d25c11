-- The tables and functions of a shared log, in one schema of a database. `log` has one row, with the leader, the number of the leader's
-- last group, and the position of the last change. Writing a group locks that row. `rows` holds each shared row in its newest form.
CREATE SCHEMA IF NOT EXISTS conch;
CREATE TABLE IF NOT EXISTS conch.log (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  id text NOT NULL,
  version integer NOT NULL,
  position bigint NOT NULL,
  leader text
);
ALTER TABLE conch.log ADD COLUMN IF NOT EXISTS number bigint NOT NULL DEFAULT 0;
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
  state text NOT NULL CHECK (state IN ('living', 'buried', 'left')),
  beat timestamptz NOT NULL
);
ALTER TABLE conch.workers ADD COLUMN IF NOT EXISTS joined timestamptz NOT NULL DEFAULT clock_timestamp();
-- The position that the worker's copy has reached.
ALTER TABLE conch.workers ADD COLUMN IF NOT EXISTS reached bigint NOT NULL DEFAULT 0;
CREATE INDEX IF NOT EXISTS rows_deleted ON conch.rows (position) WHERE row IS NULL;

-- Updates the tables of an earlier Conch, in which every worker wrote.
ALTER TABLE conch.workers DROP COLUMN IF EXISTS slot, DROP COLUMN IF EXISTS number, DROP COLUMN IF EXISTS position;
DELETE FROM conch.rows WHERE place IN ('ends', 'gone');
UPDATE conch.rows SET id = '[' || replace(id, '/', ',') || ']' WHERE place = 'ledger' AND id LIKE '%/%';
DROP FUNCTION IF EXISTS conch.write_group(text, bigint, text[], text[], text[], bigint[], integer);
DROP FUNCTION IF EXISTS conch.join_log(text, integer, text);
DROP FUNCTION IF EXISTS conch.end_worker(text, text);
DROP FUNCTION IF EXISTS conch.bury_silent(double precision);

-- Writes a group, all or nothing. Returns false when the sender does not lead, and when a later group of it was written. Otherwise
-- returns true for a group that was written before, and does not write it again. Returns false for a new group of a sender that is not
-- living.
CREATE OR REPLACE FUNCTION conch.write_group(sender text, group_number bigint, places text[], ids text[], texts text[])
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  reached bigint;
  former bigint;
BEGIN
  SELECT log.position, log.number INTO reached, former FROM conch.log WHERE leader = sender FOR UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  IF former >= group_number THEN RETURN former = group_number; END IF;
  PERFORM 1 FROM conch.workers WHERE worker = sender AND state = 'living';
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO conch.rows (place, id, position, row)
    SELECT given.place, given.id, reached + 1, given.row FROM unnest(places, ids, texts) AS given (place, id, row)
    ON CONFLICT (place, id) DO UPDATE SET position = excluded.position, row = excluded.row;
  UPDATE conch.log SET position = reached + 1, number = group_number;
  RETURN true;
END $$;

-- Removes up to 1,000 rows whose deletion is in the copies of all other living workers. Does nothing when the sender does not lead.
CREATE OR REPLACE FUNCTION conch.forget_deleted(sender text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  everywhere bigint;
BEGIN
  SELECT least(log.position, (SELECT min(reached) FROM conch.workers WHERE state = 'living' AND worker <> sender))
    INTO everywhere FROM conch.log WHERE leader = sender;
  DELETE FROM conch.rows WHERE row IS NULL AND position <= everywhere
    AND ctid IN (SELECT ctid FROM conch.rows WHERE row IS NULL AND position <= everywhere ORDER BY position LIMIT 1000);
END $$;

-- Adds a worker, with the name of its process for people.
CREATE OR REPLACE FUNCTION conch.join_log(sender text, named text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM conch.log FOR UPDATE;
  INSERT INTO conch.workers (worker, name, state, beat) VALUES (sender, named, 'living', clock_timestamp());
END $$;

-- Makes a living worker the leader unless another living worker leads. Returns whether it leads.
CREATE OR REPLACE FUNCTION conch.lead(sender text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  leads boolean;
BEGIN
  PERFORM 1 FROM conch.log FOR UPDATE;
  UPDATE conch.log SET leader = sender, number = CASE WHEN leader = sender THEN number ELSE 0 END
    WHERE EXISTS (SELECT 1 FROM conch.workers WHERE worker = sender AND state = 'living')
      AND NOT EXISTS (SELECT 1 FROM conch.workers WHERE worker = log.leader AND state = 'living' AND worker <> sender)
    RETURNING true INTO leads;
  RETURN coalesce(leads, false);
END $$;

-- Ends a living worker in good order. Waits for a group that is being written. No later group of the worker is written.
CREATE OR REPLACE FUNCTION conch.end_worker(whose text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM conch.log FOR UPDATE;
  UPDATE conch.workers SET state = 'left' WHERE worker = whose AND state = 'living';
END $$;

-- Ends the workers that did not beat for dead_ms milliseconds, unless the sender itself did not beat for fresh_ms. If there are such
-- workers, waits for a group that is being written.
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
