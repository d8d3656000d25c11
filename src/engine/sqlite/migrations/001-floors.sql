-- What is known of this file itself: `issuer` begins every outbox id, `backup` marks a copy.
CREATE TABLE meta (
  name TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Messages of people in their latest wording; `sort` orders a channel's messages as its platform does.
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
  seal BLOB
) STRICT;
CREATE INDEX inbox_order ON inbox (channel, sort);
CREATE INDEX inbox_unapplied ON inbox (channel, sort) WHERE fate IS NULL;

-- Facts, each sealed by a hash over itself and the hash before it.
CREATE TABLE journal (
  channel TEXT NOT NULL,
  seq INTEGER NOT NULL CHECK (seq > 0),
  at REAL NOT NULL,
  line INTEGER,
  fact TEXT NOT NULL,
  hash BLOB NOT NULL,
  PRIMARY KEY (channel, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX journal_line ON journal (channel, line) WHERE line IS NOT NULL;
CREATE TRIGGER journal_keeps BEFORE UPDATE ON journal BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER journal_stays BEFORE DELETE ON journal BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;

-- Which facts name a message.
CREATE TABLE mentions (
  message TEXT NOT NULL,
  channel TEXT NOT NULL,
  seq INTEGER NOT NULL,
  PRIMARY KEY (message, channel, seq)
) STRICT, WITHOUT ROWID;

-- The fold of each channel's journal up to `seq`, as canonical JSON.
CREATE TABLE floors (
  channel TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  hash BLOB NOT NULL,
  deadline REAL,
  floor TEXT NOT NULL,
  seal BLOB
) STRICT;
CREATE INDEX floors_deadline ON floors (deadline) WHERE deadline IS NOT NULL;

-- The database's own word on the one rule that matters most: one ACTIVE seat per channel.
CREATE TABLE seats (
  channel TEXT NOT NULL,
  agent TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('OFFLINE', 'IDLE', 'QUEUED', 'ACTIVE', 'WAITING')),
  PRIMARY KEY (channel, agent)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX seats_one_active ON seats (channel) WHERE status = 'ACTIVE';

-- What is owed to platforms and agents. `queue` is channel and lane; its rows are served in the order of `n`.
CREATE TABLE outbox (
  n INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL,
  channel TEXT NOT NULL,
  lane TEXT NOT NULL,
  queue TEXT NOT NULL,
  effect TEXT NOT NULL,
  part INTEGER NOT NULL,
  text TEXT,
  type TEXT NOT NULL,
  epoch INTEGER,
  key TEXT,
  repeats INTEGER NOT NULL DEFAULT 0,
  state TEXT NOT NULL DEFAULT 'owed' CHECK (state IN ('owed', 'inflight', 'uncertain', 'confirmed', 'failed')),
  cancelled INTEGER NOT NULL DEFAULT 0 CHECK (cancelled IN (0, 1)),
  attempts INTEGER NOT NULL DEFAULT 0,
  not_before REAL NOT NULL DEFAULT 0,
  platform_id TEXT,
  why TEXT,
  seal BLOB
) STRICT;
CREATE INDEX outbox_open ON outbox (queue, n) WHERE state IN ('owed', 'inflight', 'uncertain');
CREATE INDEX outbox_posted ON outbox (channel, n) WHERE platform_id IS NOT NULL;
CREATE INDEX outbox_announced ON outbox (channel, key, n) WHERE platform_id IS NOT NULL AND key IS NOT NULL;

-- Where each agent's supervisor stood.
CREATE TABLE agents (
  id TEXT NOT NULL PRIMARY KEY,
  state TEXT NOT NULL,
  seal BLOB
) STRICT;
