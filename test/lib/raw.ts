import { connect } from 'node:net';

const LIMIT_MS = 30_000;

/** Sends a text to a local port. Returns the answer when the connection closes, fails or is silent for 30 s. */
export function sendRaw(port: number, text: string): Promise<string> {
  return new Promise((resolve) => {
    let answer = '';
    const socket = connect({ port, host: '127.0.0.1' }, () => socket.write(text));
    socket.setEncoding('latin1').on('data', (piece: string) => void (answer += piece));
    socket.on('error', () => undefined).on('close', () => resolve(answer));
    socket.setTimeout(LIMIT_MS, () => socket.destroy());
  });
}

/** Request targets that `new URL` rejects, also with a base URL. */
export const ODD_TARGETS: readonly string[] = ['//', 'http://[', 'ws://a:b@c:99999/agent'];

/** Returns a WebSocket handshake for this target. All other parts of the handshake are valid. */
export function handshake(target: string, headers = ''): string {
  const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n';
  return `GET ${target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n${key}${headers}\r\n`;
}

/** Returns the HTTP status of an answer; 0 when the answer has no status line. */
export function statusOf(answer: string): number {
  return Number(/^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 0);
}
