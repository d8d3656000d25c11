-- When the latest wording was written, as the platform counts, and whether a program wrote the message.
ALTER TABLE inbox ADD COLUMN version TEXT;
ALTER TABLE inbox ADD COLUMN bot INTEGER NOT NULL DEFAULT 0 CHECK (bot IN (0, 1));

-- Only rows that are still what was written get the new seal.
UPDATE inbox SET seal = seal(
  id, channel, sort, position, author_id, author_name, text, sent_at, addressed, attachments, ignore_rule, fate, edited,
  deleted, version, bot
) WHERE seal IS seal(
  id, channel, sort, position, author_id, author_name, text, sent_at, addressed, attachments, ignore_rule, fate, edited,
  deleted
);

-- What parts of the program must know after a restart: threads with floors, sessions of platforms, ids of cards.
CREATE TABLE memory (
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  seal BLOB,
  PRIMARY KEY (owner, name)
) STRICT;
