import type { IncomingMessage, ServerResponse } from 'node:http';
import { fileJson, origin } from './events.ts';
import { publish } from './events-publish.ts';
import { nextId } from './state.ts';
import type { Json, StoredFile } from './state.ts';
import { ownMessage, writable } from './web-chat.ts';
import { Refusal, joinedChannel, list, needed, text } from './web.ts';
import type { Call, Method, Slack } from './web.ts';

export const fileMethods: Readonly<Record<string, Method>> = {
  'files.getUploadURLExternal': { scopes: ['files:write'], run: uploadUrl },
  'files.completeUploadExternal': { scopes: ['files:write'], run: complete },
  'files.info': {
    scopes: ['files:read'],
    run: (call) => ({ file: fileJson(call.slack.world, fileOf(call, needed(call.args, 'file'))) }),
  },
};

type Http = { readonly request: IncomingMessage; readonly response: ServerResponse; readonly body: Buffer };

/** Serves uploads and `url_private`. Answers with Slack's login page without a token that may read files. */
export function serveFile({ world }: Slack, { request, response, body }: Http): void {
  const [, kind = '', id = ''] = new URL(request.url ?? '/', 'http://loopback').pathname.split('/');
  const file = world.files.get(id);
  if (file === undefined) return void response.writeHead(404).end();
  if (kind === 'upload' && request.method === 'POST') {
    file.content = body;
    return void response.writeHead(200).end(`OK - ${body.length}`);
  }
  const may =
    request.headers.authorization === `Bearer ${world.app.botToken}` && world.app.botScopes.includes('files:read');
  if (kind !== 'files-pri' || !may)
    return void response.writeHead(200, { 'content-type': 'text/html' }).end('<html>Log in</html>');
  response.writeHead(200, { 'content-type': file.mimetype }).end(file.content);
}

function uploadUrl({ slack: { world }, args }: Call): Json {
  const name = needed(args, 'filename');
  if (!(Number(args['length']) > 0)) throw new Refusal('invalid_arguments');
  const file: StoredFile = {
    id: nextId(world, 'F'),
    name,
    mimetype: 'text/plain',
    user: world.app.botUser,
    content: Buffer.alloc(0),
  };
  world.files.set(file.id, file);
  return { upload_url: `${origin.get(world)}/upload/${file.id}`, file_id: file.id };
}

function complete(call: Call): Json {
  const { slack, args } = call;
  const files = list(args, 'files').map(({ id }) => fileOf(call, String(id)));
  if (files.length === 0) throw new Refusal('invalid_arguments');
  if (text(args, 'channel_id') !== null) {
    const channel = writable(joinedChannel(call, 'channel_id'));
    const message = {
      ...ownMessage(call, channel),
      text: text(args, 'initial_comment') ?? '',
      files,
      subtype: 'file_share',
    };
    publish(slack, channel, { ...message, user: slack.world.app.botUser, username: null, icon: null });
  }
  return { files: files.map((file) => fileJson(slack.world, file)) };
}

function fileOf({ slack: { world } }: Call, id: string): StoredFile {
  const file = world.files.get(id);
  if (file === undefined) throw new Refusal('file_not_found');
  return file;
}
