import { effect } from '@preact/signals';
import { backoffMs } from '../../lib/retry.ts';
import type { PageFrame, ServerFrame } from '../console/protocol.ts';
import { letIn, onLetIn, pagePart } from './access.tsx';
import { AUDIT_PLACE, channel, connection, openView } from './state.ts';

const RECONNECT = { firstMs: 300, longestMs: 8_000 };
/**
 * How long a connection stays open after its start or the last frame of the server, in milliseconds. The server sends a
 * beat every 15 s.
 */
const SILENCE_MS = 40_000;

let socket: WebSocket | null = null;
let failures = 0;
let silence: ReturnType<typeof setTimeout> | undefined;
let retry: ReturnType<typeof setTimeout> | undefined;

let hear: (frame: ServerFrame) => void = () => {};

/** Connects, and reconnects with backoff; `listener` is called with each frame of the server. */
export function connect(listener: typeof hear): void {
  hear = listener;
  effect(remember);
  void redial();
  onLetIn(dialNow);
  addEventListener('online', () => dialNow());
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible') dialNow();
  });
}

/** Reconnects at once if the connection is lost. */
export function dialNow(): void {
  if (connection.value !== 'lost') return;
  clearTimeout(retry);
  void redial();
}

function dial(): void {
  if (socket !== null && socket.readyState <= WebSocket.OPEN) return;
  const newSocket = new WebSocket(`${location.origin.replace(/^http/, 'ws')}/socket`, ['conch', pagePart()]);
  socket = newSocket;
  listen(newSocket);
  newSocket.addEventListener('open', () => {
    failures = 0;
    transmit({ type: 'open', channel: channel.value ?? remembered() });
  });
  newSocket.addEventListener('message', (event: MessageEvent<string>) => {
    listen(newSocket);
    hear(JSON.parse(event.data) as ServerFrame);
  });
  newSocket.addEventListener('close', () => {
    if (socket === newSocket) lost();
  });
}

function lost(): void {
  clearTimeout(silence);
  connection.value = 'lost';
  failures += 1;
  const waitMs = backoffMs(RECONNECT, failures) * (0.75 + Math.random() / 2);
  clearTimeout(retry);
  retry = setTimeout(() => void redial(), waitMs);
}

/**
 * Asks whether this browser has access, then connects: a refused WebSocket gives no reason. Does not retry without
 * access.
 */
async function redial(): Promise<void> {
  try {
    if (!(await letIn())) {
      connection.value = 'lost';
      return;
    }
  } catch {
    return lost();
  }
  dial();
}

function listen(openSocket: WebSocket): void {
  clearTimeout(silence);
  silence = setTimeout(() => openSocket.close(), SILENCE_MS);
}

/** Sends a frame. Returns false, and sends nothing, without a connection. */
export function transmit(frame: PageFrame): boolean {
  if (socket === null || socket.readyState !== WebSocket.OPEN) return false;
  socket.send(JSON.stringify(frame));
  return true;
}

function remembered(): string | null {
  try {
    return location.hash === AUDIT_PLACE ? null : decodeURIComponent(location.hash.slice(1)) || null;
  } catch {
    return null;
  }
}

function remember(): void {
  if (openView.value === 'audit') history.replaceState(null, '', AUDIT_PLACE);
  else if (channel.value !== null) history.replaceState(null, '', `#${encodeURIComponent(channel.value)}`);
}
