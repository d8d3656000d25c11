/**
 * Runs inside a sandbox without a network, as the parent of the sandboxed program. Accepts connections on the proxy
 * port and the other ports. Forwards each connection to the socket of Conch's proxy. Imports only Node: the sandbox may
 * hide every other file of Conch. Arguments: the socket, the proxy port, the other ports joined by commas, then the
 * program with its arguments.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { Socket } from 'node:net';

const [socket = '', proxyPort = '', ports = '', command = '', ...args] = process.argv.slice(2);

await listen(Number(proxyPort), (from) => join(from, connect(socket)));
for (const port of ports.split(',').filter((each) => each !== ''))
  await listen(Number(port), (from) => tunnel(from, port));

// A signal goes to the whole group, so the program receives the signal too. The relay ends only with its program.
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined);
const child = spawn(command, args, { stdio: 'inherit' });
child.once('error', (error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(127);
});
child.once('exit', (code, signal) => process.exit(code ?? (signal === 'SIGTERM' ? 143 : 137)));

async function listen(port: number, take: (from: Socket) => void): Promise<void> {
  const server = createServer({ allowHalfOpen: true }, take);
  await once(server.listen(port, '127.0.0.1'), 'listening');
}

function tunnel(from: Socket, port: string): void {
  const to = connect({ path: socket, allowHalfOpen: true });
  to.write(`CONNECT 127.0.0.1:${port} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
  let head = Buffer.alloc(0);
  const hear = (chunk: Buffer): void => {
    head = Buffer.concat([head, chunk]);
    const end = head.indexOf('\r\n\r\n');
    if (end < 0) return;
    to.off('data', hear);
    if (!head.toString('latin1').startsWith('HTTP/1.1 200')) return void from.destroy();
    const rest = head.subarray(end + 4);
    if (rest.length > 0) from.write(rest);
    join(from, to);
  };
  to.on('data', hear);
  for (const each of [from, to]) each.on('error', () => (from.destroy(), to.destroy()));
}

function join(from: Socket, to: Socket): void {
  for (const each of [from, to]) each.on('error', () => (from.destroy(), to.destroy()));
  for (const each of [from, to]) each.on('close', () => (from.destroy(), to.destroy()));
  from.pipe(to);
  to.pipe(from);
}
