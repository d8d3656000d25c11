-- One state for each key of each machine: the fold of its journal up to `row`, as JSON.
CREATE TABLE machines (
  id INTEGER NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  key TEXT NOT NULL,
  row INTEGER NOT NULL,
  version INTEGER NOT NULL,
  deadline REAL,
  state TEXT NOT NULL,
  checksum BLOB,
  UNIQUE (name, key)
) STRICT;
CREATE INDEX machines_deadline ON machines (deadline) WHERE deadline IS NOT NULL;

-- One row for each command with all its facts, written once: `prev` is the row before of the same key, and the hash covers both.
-- `cause` is the id of a command that another machine sent, which is carried out once.
DROP TRIGGER journal_keeps;
DROP TRIGGER journal_stays;
ALTER TABLE journal RENAME TO former_journal;
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
  hash BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX journal_cause ON journal (machine, cause) WHERE cause IS NOT NULL;

-- What a floor was when this schema came begins its chain anew.
INSERT INTO machines (id, name, key, row, version, deadline, state)
  SELECT row_number() OVER (ORDER BY channel), 'floor', channel, row_number() OVER (ORDER BY channel), 0, deadline, floor FROM floors;
INSERT INTO journal (row, machine, seq, prev, at, deadline, version, facts, cause, hash)
  SELECT m.row, m.id, f.seq, NULL, coalesce((SELECT max(at) FROM former_journal j WHERE j.channel = f.channel), 0), f.deadline, 0,
    '{"checkpoint":' || f.floor || '}', NULL, row_hash(m.id, f.seq, NULL, coalesce((SELECT max(at) FROM former_journal j WHERE j.channel = f.channel), 0), f.deadline, 0, NULL, '{"checkpoint":' || f.floor || '}')
  FROM floors f JOIN machines m ON m.key = f.channel
  WHERE f.seal IS seal(f.channel, f.seq, f.hash, f.deadline, f.floor);
CREATE TRIGGER journal_keeps BEFORE UPDATE ON journal BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER journal_stays BEFORE DELETE ON journal BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;

DROP TABLE former_journal;
DROP TABLE mentions;
DROP TABLE seats;
DROP TABLE floors;

-- What is owed to platforms; what agents are owed follows from the floors. The first row of a lane may have been in flight when
-- the program ended, unless it ended in good order.
ALTER TABLE outbox RENAME TO former_outbox;
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
INSERT INTO outbox
  SELECT n, id, channel, lane, type, effect, part, text, key, repeats, iif(state = 'inflight', 'uncertain', state), platform_id, why,
    iif(seal IS seal(n, id, channel, lane, queue, effect, part, text, type, epoch, key, repeats, state, cancelled, attempts,
        not_before, platform_id, why),
      checksum(n, id, channel, lane, type, effect, part, text, key, repeats, iif(state = 'inflight', 'uncertain', state),
        platform_id, why),
      NULL)
  FROM former_outbox WHERE lane IN ('posts', 'receipts');
DROP TABLE former_outbox;
CREATE INDEX outbox_open ON outbox (n) WHERE state IN ('owed', 'uncertain');
-- The last post of each channel that stands there for certain.
CREATE TABLE posted (
  channel TEXT NOT NULL PRIMARY KEY,
  platform_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO posted
  SELECT channel, platform_id FROM outbox WHERE n IN (SELECT max(n) FROM outbox WHERE platform_id IS NOT NULL GROUP BY channel);
CREATE INDEX outbox_announced ON outbox (channel, key, n) WHERE platform_id IS NOT NULL AND key IS NOT NULL;

-- `since` is the last row of the journal when the message came: nothing before it names the message.
ALTER TABLE inbox ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE inbox RENAME COLUMN seal TO checksum;
ALTER TABLE agents RENAME COLUMN seal TO checksum;
ALTER TABLE memory RENAME COLUMN seal TO checksum;
UPDATE inbox SET checksum = checksum(
  id, channel, sort, position, author_id, author_name, text, sent_at, addressed, attachments, ignore_rule, fate, edited,
  deleted, version, bot, since
) WHERE checksum IS checksum(
  id, channel, sort, position, author_id, author_name, text, sent_at, addressed, attachments, ignore_rule, fate, edited,
  deleted, version, bot
);
UPDATE machines SET checksum = checksum(id, name, key, row, version, deadline, state) WHERE row IN (SELECT row FROM journal);
