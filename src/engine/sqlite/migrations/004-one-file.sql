-- What stands in the channels of the console, which is the platform of its own messages.
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
