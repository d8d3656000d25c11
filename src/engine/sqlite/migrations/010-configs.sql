-- What states and facts of many keys have in common, once, under its hash, which stands in its place there. What was stored before
-- holds its configuration itself.
CREATE TABLE configs (
  id TEXT NOT NULL PRIMARY KEY,
  json TEXT NOT NULL
) STRICT, WITHOUT ROWID;
