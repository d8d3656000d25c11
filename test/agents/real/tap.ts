import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';

// Runs an agent and records its messages: node test/agents/real/tap.ts LOG PROGRAM [ARGUMENT …]. Appends what Conch
// sends to LOG.sent and what the agent sends to LOG.heard.
const [log = '', program = '', ...args] = process.argv.slice(2);
const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
const kept = (name: string) => createWriteStream(`${log}.${name}`, { flags: 'a' });
child.stdin.on('error', () => process.exit());
process.stdin.pipe(child.stdin);
process.stdin.pipe(kept('sent'));
child.stdout.pipe(process.stdout);
child.stdout.pipe(kept('heard'));
child.on('exit', (code, signal) => (signal === null ? process.exit(code ?? 0) : process.kill(process.pid, signal)));
