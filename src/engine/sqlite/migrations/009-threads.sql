-- The thread in which a message stands, where threads share the floor of their channel.
ALTER TABLE inbox ADD COLUMN thread TEXT;
UPDATE inbox SET checksum = checksum(
  id, channel, sort, position, author_id, author_name, text, sent_at, addressed, attachments, ignore_rule, fate, edited,
  deleted, version, bot, since, thread
) WHERE checksum IS checksum(
  id, channel, sort, position, author_id, author_name, text, sent_at, addressed, attachments, ignore_rule, fate, edited,
  deleted, version, bot, since
);
