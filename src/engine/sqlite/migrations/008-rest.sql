-- The word with which a state is at rest, by which a start knows that nothing is to be done for it; NULL when it is not. What was
-- stored before is at rest if it is no floor, or one at which nothing is under way, nothing waits, and all
-- agents of its configuration, and no others, are there.
ALTER TABLE machines ADD COLUMN rest TEXT;
UPDATE machines SET rest = 'before' WHERE CASE
  WHEN name <> 'floor' THEN TRUE
  WHEN version = 0 OR deadline IS NOT NULL OR NOT json_valid(state) THEN FALSE
  ELSE json_extract(state, '$.turn') IS NULL AND json_extract(state, '$.exchange') IS NULL
    AND json_extract(state, '$.facilitation') IS NULL AND json_extract(state, '$.catchingUp') = 0
    AND json_array_length(state, '$.parked') + json_array_length(state, '$.held') = 0
    AND json_array_length(state, '$.seats') = json_array_length(state, '$.configured.seats')
    AND NOT EXISTS (
      SELECT 1 FROM json_each(state, '$.seats') AS seat
      WHERE json_extract(seat.value, '$.disabled') = 0
        AND (json_extract(seat.value, '$.present') = 0 OR json_extract(seat.value, '$.status') = 'OFFLINE')
    )
  END;
UPDATE machines SET checksum = checksum(id, name, key, row, version, deadline, rest, state)
  WHERE checksum IS checksum(id, name, key, row, version, deadline, state);
CREATE INDEX machines_awake ON machines (name, key) WHERE rest IS NULL;

-- What people wrote in the console, for whoever looks whether all of it was handed in.
CREATE INDEX conversation_written ON conversation (seq) WHERE kind = 'person';
