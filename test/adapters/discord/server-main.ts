import { startDiscord } from './server.ts';
import type { DiscordOptions } from './server.ts';

/** Runs the fake Discord in its own process. The first argument: options in JSON. Prints its URL and ids in JSON. */
const options = JSON.parse(process.argv[2] ?? '{}') as DiscordOptions;
const server = await startDiscord(options);
const { apiUrl, port, token, guild, channel, application, botUser } = server;
process.stdout.write(`${JSON.stringify({ apiUrl, port, token, guild, channel, application, botUser })}\n`);
process.on('SIGTERM', () => void server.close().then(() => process.exit(0)));
