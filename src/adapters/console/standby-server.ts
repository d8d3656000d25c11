import { closeServer, createQuietServer, guardServer, listenError, listenOn, reply } from '../../lib/guarded-server.ts';
import type { FaultLog, Reply } from '../../lib/guarded-server.ts';

const STANDS_BY = 'This Conch stands by: another one leads and shows the page. `conch workers` names it.\n';

const ANSWERS: Readonly<Record<string, Reply>> = {
  '/livez': { status: 200, body: 'ok\n' },
  '/healthz': { status: 503, body: { status: 'standing by' } },
};

/**
 * Listens on the page's port of this machine while this Conch stands by. Answers `/livez` with 200, `/healthz` with
 * 503, and other paths with 503 and the command that names the leader. Rejects with one line when it cannot listen.
 * The returned function closes the server.
 */
export async function serveStandby(port: number, log: FaultLog): Promise<() => Promise<void>> {
  const http = createQuietServer();
  const answerTo = (url = ''): Reply => ANSWERS[url.split('?', 1)[0] ?? ''] ?? { status: 503, body: STANDS_BY };
  guardServer(http, { request: ({ url }, response) => reply(response, answerTo(url)) }, log);
  const place = { host: '127.0.0.1', port };
  await listenOn(http, place).catch((error: NodeJS.ErrnoException) => {
    throw listenError(error, place, 'CONCH_PORT');
  });
  return () => closeServer(http);
}
