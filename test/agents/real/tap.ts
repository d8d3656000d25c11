import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';

// Runs an agent and keeps what goes over its wire: node test/agents/real/tap.ts LOG PROGRAM [ARGUMENT …].
// What Conch sends stands in LOG.sent, what the agent sends in LOG.heard; both go on behind what stands there.
const [log = '', program = '', ...args] = process.argv.slice(2);
const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
const kept = (name: string) => createWriteStream(`${log}.${name}`, { flags: 'a' });
child.stdin.on('error', () => process.exit());
process.stdin.pipe(child.stdin);
process.stdin.pipe(kept('sent'));
child.stdout.pipe(process.stdout);
child.stdout.pipe(kept('heard'));
child.on('exit', (code, signal) => (signal === null ? process.exit(code ?? 0) : process.kill(process.pid, signal)));
