-- What people and agents said stands beside the facts, which hold a salted hash of it: it can be taken out, and all else stays.
ALTER TABLE journal ADD COLUMN body TEXT;
DROP TRIGGER journal_keeps;
CREATE TRIGGER journal_keeps BEFORE UPDATE OF row, machine, seq, prev, at, deadline, version, facts, cause, hash ON journal
  WHEN NOT EXISTS (SELECT 1 FROM meta WHERE name = 'pruning') BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
DROP TRIGGER journal_stays;
CREATE TRIGGER journal_stays BEFORE DELETE ON journal
  WHEN NOT EXISTS (SELECT 1 FROM meta WHERE name = 'pruning') BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
