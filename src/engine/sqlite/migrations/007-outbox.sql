-- A start looks for what is open behind the row that is noted as `settled`: an index of what is open would be written twice for each post.
DROP INDEX outbox_open;

-- A checksum covers what is owed, and not what became of it.
UPDATE outbox SET checksum = checksum(n, id, channel, lane, type, effect, part, text, key, repeats)
  WHERE checksum IS checksum(n, id, channel, lane, type, effect, part, text, key, repeats, state, platform_id, why);
