-- A start looks for what is open behind the row that is noted as `settled`: an index of what is open would be written twice for each post.
DROP INDEX outbox_open;
