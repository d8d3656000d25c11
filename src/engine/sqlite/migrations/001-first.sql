-- "Conc" in ASCII: marks the file as a database of Conch, as released. Files of versions before the first release do not have it.
PRAGMA application_id = 1131376227;

-- Facts about this file. For example, `issuer` begins the id of each new outbox row, and `backup` marks a copy. `settled` is the number
-- of an outbox row up to which all rows are settled.
CREATE TABLE meta (
  name TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Messages of people and programs in their latest wording. `sort` is the platform's order within a channel. `version` is the
-- platform's time of the latest edit. `since` is the last journal row when the message arrived: no row up to that one names the message.
CREATE TABLE inbox (
  id TEXT NOT NULL PRIMARY KEY,
  channel TEXT NOT NULL,
  sort TEXT NOT NULL,
  position TEXT NOT NULL,
  author_id TEXT NOT NULL,
  author_name TEXT NOT NULL,
  text TEXT NOT NULL,
  sent_at REAL NOT NULL,
  addressed TEXT NOT NULL,
  attachments TEXT NOT NULL,
  ignore_rule TEXT,
  fate TEXT,
  edited INTEGER NOT NULL DEFAULT 0 CHECK (edited IN (0, 1)),
  deleted INTEGER NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1)),
  version TEXT,
  bot INTEGER NOT NULL DEFAULT 0 CHECK (bot IN (0, 1)),
  since INTEGER NOT NULL DEFAULT 0,
  thread TEXT,
  checksum BLOB
) STRICT;
CREATE INDEX inbox_order ON inbox (channel, sort);
CREATE INDEX inbox_unapplied ON inbox (channel, sort) WHERE fate IS NULL;

-- Values that parts of the program keep over a restart, such as floors of threads, sessions of platforms, ids of cards.
CREATE TABLE memory (
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  checksum BLOB,
  PRIMARY KEY (owner, name)
) STRICT;

-- One state for each key of each machine: its journal folded up to `row`, as JSON. `rest` is the word of a state at rest. It is NULL
-- while something is under way: a start loads the states with NULL.
CREATE TABLE machines (
  id INTEGER NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  key TEXT NOT NULL,
  row INTEGER NOT NULL,
  version INTEGER NOT NULL,
  deadline REAL,
  rest TEXT,
  state TEXT NOT NULL,
  checksum BLOB,
  UNIQUE (name, key)
) STRICT;
CREATE INDEX machines_deadline ON machines (deadline) WHERE deadline IS NOT NULL;
CREATE INDEX machines_awake ON machines (name, key) WHERE rest IS NULL;

-- The facts of a command, or of several commands of one instant. `prev` is the number of the key's previous row; the hash covers the
-- hash of that row. `cause` is the id of a command that is carried out once (`applyOnce`). `body` holds the texts of people and agents,
-- of which the facts hold a salted hash: a text can be erased and the hashes stay valid.
CREATE TABLE journal (
  row INTEGER NOT NULL PRIMARY KEY,
  machine INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  prev INTEGER,
  at REAL NOT NULL,
  deadline REAL,
  version INTEGER NOT NULL,
  facts TEXT NOT NULL,
  cause TEXT,
  hash BLOB NOT NULL,
  body TEXT
) STRICT;
CREATE UNIQUE INDEX journal_cause ON journal (machine, cause) WHERE cause IS NOT NULL;
CREATE TRIGGER journal_keeps BEFORE UPDATE OF row, machine, seq, prev, at, deadline, version, facts, cause, hash ON journal
  WHEN NOT EXISTS (SELECT 1 FROM meta WHERE name = 'pruning') BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER journal_stays BEFORE DELETE ON journal
  WHEN NOT EXISTS (SELECT 1 FROM meta WHERE name = 'pruning') BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;

-- Configurations that states and facts name by `id`, the hash of `json`. Equal configurations are stored once.
CREATE TABLE configs (
  id TEXT NOT NULL PRIMARY KEY,
  json TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Effects to deliver to platforms. The checksum leaves out delivery state (`state`, `platform_id`, `why`), which changes after the row
-- is written. There is no index of open rows, because each post would write it twice: a start reads the rows after `settled`.
CREATE TABLE outbox (
  n INTEGER NOT NULL PRIMARY KEY,
  id TEXT NOT NULL,
  channel TEXT NOT NULL,
  lane TEXT NOT NULL,
  type TEXT NOT NULL,
  effect TEXT NOT NULL,
  part INTEGER NOT NULL,
  text TEXT,
  key TEXT,
  repeats INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('owed', 'uncertain', 'confirmed', 'failed')),
  platform_id TEXT,
  why TEXT,
  checksum BLOB
) STRICT;
CREATE INDEX outbox_announced ON outbox (channel, key, n) WHERE platform_id IS NOT NULL AND key IS NOT NULL;

-- The last confirmed text of each channel, as far as it was stored; newer ones are found in `outbox`.
CREATE TABLE posted (
  channel TEXT NOT NULL PRIMARY KEY,
  platform_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The messages in the console's channels: the console is the platform of its own messages.
CREATE TABLE conversation (
  seq INTEGER NOT NULL PRIMARY KEY,
  channel TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('person', 'agent', 'system')),
  speaker_id TEXT NOT NULL,
  speaker_name TEXT NOT NULL,
  avatar TEXT,
  text TEXT NOT NULL,
  epoch INTEGER,
  sent_at REAL NOT NULL,
  edited INTEGER NOT NULL CHECK (edited IN (0, 1)),
  deleted INTEGER NOT NULL CHECK (deleted IN (0, 1)),
  receipts TEXT NOT NULL,
  reply_to TEXT,
  nonce TEXT NOT NULL UNIQUE,
  checksum BLOB
) STRICT;
CREATE INDEX conversation_order ON conversation (channel, seq);
CREATE INDEX conversation_written ON conversation (seq) WHERE kind = 'person';

-- One row for each model call that fact `n` of a journal row reports. `cost` is in millionths of a dollar, NULL when the cost is unknown.
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
