import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as all } from 'node:stream/consumers';
import { KEY } from './agents.ts';
import type { Mark } from './hostile-files.ts';

/** The marks left by hostile files. */
export type Marks = {
  readonly mark: Mark;
  /** Returns the names of the marks, each once. */
  left(): readonly string[];
  /** Returns how many requests contained the owner's key. */
  keys(): number;
  stop(): Promise<void>;
};

/** Opens the marks of one folder: files in `${base}/marks`, and a server that forwards requests to the mock model. */
export async function openMarks(
  base: string,
  { folder, url }: { readonly folder: string; readonly url: string },
): Promise<Marks> {
  const marks = `${base}/marks`;
  mkdirSync(marks, { recursive: true });
  const hits = new Set<string>();
  let keys = 0;
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method = 'GET', headers } = request;
    const [, name = '', ...rest] = (request.url ?? '/').split('/');
    const body = await all(request);
    hits.add(name);
    if (JSON.stringify(headers).includes(KEY) || body.includes(KEY) || request.url?.includes(KEY) === true) keys += 1;
    const sent = method === 'GET' ? {} : { method, headers: { 'content-type': 'application/json' }, body };
    const answer = await fetch(`${url}/${rest.join('/')}`, sent);
    response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? 'text/plain' });
    response.end(await answer.text());
  };
  const server = createServer((request, response) => void take(request, response).catch(() => response.destroy()));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const here = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    mark: {
      folder,
      file: (name) => `${marks}/${name}`,
      shell: (name) => `touch ${marks}/${name}`,
      url: (name) => `${here}/${name}`,
    },
    left: () => [...new Set([...(existsSync(marks) ? readdirSync(marks) : []), ...hits])].toSorted(),
    keys: () => keys,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}
