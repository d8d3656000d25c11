-- One row for each call of a model, as fact `n` of a row of the journal tells it. `cost` is in millionths of a dollar, NULL when
-- nobody knows a price. What was spent before there was a ledger is taken from the journal, which did not say where its cost came from.
CREATE TABLE ledger (
  id INTEGER NOT NULL PRIMARY KEY,
  machine INTEGER NOT NULL,
  row INTEGER NOT NULL,
  n INTEGER NOT NULL,
  at REAL NOT NULL,
  agent TEXT NOT NULL,
  epoch INTEGER,
  run TEXT,
  requested_by TEXT,
  backend TEXT,
  model TEXT,
  tokens REAL NOT NULL,
  input REAL,
  output REAL,
  cached REAL,
  cost REAL,
  source TEXT NOT NULL CHECK (source IN ('reported', 'computed', 'estimated', 'unpriced')),
  outcome TEXT,
  ms REAL,
  checksum BLOB
) STRICT;
CREATE INDEX ledger_order ON ledger (machine, row);
INSERT INTO ledger (machine, row, n, at, agent, epoch, tokens, cost, source)
  SELECT j.machine, j.row, f.key, j.at, f.value ->> 'agent', nullif(f.value ->> 'epoch', 0), f.value ->> 'tokens',
    nullif(f.value ->> 'costMicros', 0), iif(f.value ->> 'costMicros' > 0, 'estimated', 'unpriced')
  FROM journal j JOIN machines m ON m.id = j.machine AND m.name = 'floor',
    json_each(iif(json_valid(j.facts) AND substr(j.facts, 1, 1) = '[', j.facts, '[]')) AS f
  WHERE f.value ->> 'type' = 'spent'
  ORDER BY j.row, f.key;
UPDATE ledger SET checksum = checksum(
  machine, row, n, at, agent, epoch, run, requested_by, backend, model, tokens, input, output, cached, cost, source, outcome, ms
);
