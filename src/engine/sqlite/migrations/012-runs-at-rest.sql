-- Runs under way and what people allowed for always are found without a look at every seat: such a state is not at rest.
UPDATE machines SET rest = NULL, checksum = checksum(id, name, key, row, version, deadline, NULL, state)
  WHERE name = 'run' AND checksum IS checksum(id, name, key, row, version, deadline, rest, state) AND json_valid(state)
    AND (json_extract(state, '$.status') NOT IN ('idle', 'completed') OR json_array_length(state, '$.remembered') > 0);
