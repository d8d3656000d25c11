-- What was saved of each agent's session begins its journal; a row that is not what was written is left out.
CREATE TEMP TABLE former_sessions AS
  SELECT id AS key, state, row_number() OVER (ORDER BY id) AS n FROM agents WHERE checksum IS checksum(id, state) AND json_valid(state);
CREATE TEMP TABLE last_rows AS
  SELECT (SELECT coalesce(max(id), 0) FROM machines) AS id, (SELECT coalesce(max(row), 0) FROM journal) AS row,
    (SELECT coalesce(max(at), 0) FROM journal) AS at;
INSERT INTO machines (id, name, key, row, version, deadline, state, checksum)
  SELECT l.id + n, 'session', key, l.row + n, 0, NULL, state, checksum(l.id + n, 'session', key, l.row + n, 0, NULL, state)
  FROM former_sessions, last_rows l;
INSERT INTO journal (row, machine, seq, prev, at, deadline, version, facts, cause, hash)
  SELECT l.row + n, l.id + n, 0, NULL, l.at, NULL, 0, '{"checkpoint":' || state || '}', NULL,
    row_hash(l.id + n, 0, NULL, l.at, NULL, 0, NULL, '{"checkpoint":' || state || '}')
  FROM former_sessions, last_rows l;
DROP TABLE former_sessions;
DROP TABLE last_rows;
DROP TABLE agents;
