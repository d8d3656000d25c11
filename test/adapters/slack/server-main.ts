import { isObject } from './state-text.ts';
import { startSlack } from './server.ts';

/** Interval of the check whether the parent process is alive. */
const LOOK_MS = 500;

/**
 * The fake Slack in its own process: `node server-main.ts ['{"ackMs":200}']`. Prints one line of JSON (port, apiUrl,
 * tokens, ids). Takes POST /control/<name> with a JSON list of arguments. Ends with its parent or on SIGTERM.
 */
const given: unknown = JSON.parse(process.argv[2] ?? '{}');
const slack = await startSlack({ ...(isObject(given) ? given : {}), control: true });
const { port, apiUrl, botToken, appToken, signingSecret, ids } = slack;
process.stdout.write(`${JSON.stringify({ port, apiUrl, botToken, appToken, signingSecret, ids })}\n`);

const parent = process.ppid;
const looking = setInterval(() => {
  if (process.ppid !== parent) end();
}, LOOK_MS);
process.on('SIGTERM', end);
process.on('SIGINT', end);

function end(): void {
  clearInterval(looking);
  slack.close().then(
    () => process.exit(0),
    () => process.exit(1),
  );
}
