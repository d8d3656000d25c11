import { startDiscord } from './server.ts';
import type { DiscordOptions } from './server.ts';

/** Starts it as a program of its own: options as JSON in the first argument; where it is goes to standard output as one line. */
const options = JSON.parse(process.argv[2] ?? '{}') as DiscordOptions;
const server = await startDiscord(options);
const { apiUrl, port, token, guild, channel, application, botUser } = server;
process.stdout.write(`${JSON.stringify({ apiUrl, port, token, guild, channel, application, botUser })}\n`);
process.on('SIGTERM', () => void server.close().then(() => process.exit(0)));
