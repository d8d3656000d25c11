import { createServer } from 'node:net';
import { shortDigest } from '../../../lib/digest.ts';

/** Ports of one slot. */
const PORTS = 20;
const FIRST_PORT = 20_000;
const LAST_PORT = 60_000;

/** The run of the tests of main. That of a ticket is its session. */
export const BASE_RUN = 'main';

/** The variables of the environment that keep what a worker starts apart from what others start. */
export function slotEnvironment(crew: string, slot: number) {
  const name = `${crew.toLowerCase().replaceAll(/[^a-z0-9]+/g, '_')}_${shortDigest(crew).slice(0, 4)}_${slot}`;
  return {
    CONCH_SLOT: String(slot),
    CONCH_PORT_BASE: String(portBase(crew, slot)),
    CONCH_DB_SUFFIX: `_${name}`,
    COMPOSE_PROJECT_NAME: `conch_${name}`,
  };
}

/** The first of a slot's ports: the same for a crew and slot at every start. */
function portBase(crew: string, slot: number): number {
  const blocks = Math.floor((LAST_PORT - FIRST_PORT) / PORTS);
  const first = Number.parseInt(shortDigest(crew).slice(0, 8), 16) % blocks;
  return FIRST_PORT + ((first + slot) % blocks) * PORTS;
}

/** The ports of a slot that another program uses. */
export async function portsInUse(crew: string, slot: number): Promise<readonly number[]> {
  const base = portBase(crew, slot);
  const ports = Array.from({ length: PORTS }, (_, index) => base + index);
  const free = await Promise.all(ports.map(isFree));
  return ports.filter((_, index) => free[index] === false);
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}
