import type { WebClient } from '@slack/web-api';
import type { Logger } from 'pino';
import type { AgentId, ChannelId, MessageId } from '../../turns/floor/settings.ts';
import type { Timer, Timers } from '../../lib/time.ts';
import type { FloorView } from '../../turns/view.ts';
import type { FloorQueries, Speaker } from '../port.ts';
import { ANY_ANSWER, call, isDirect, platformChannel, platformMessage } from './client.ts';
import type { SlackSettings } from './client.ts';
import { slackCode } from './errors.ts';
import { identityOf } from './content.ts';

/** What status lines need. */
type StatusesPorts = {
  readonly web: WebClient;
  readonly timers: Timers;
  readonly log: Logger;
  readonly queries: Pick<FloorQueries, 'agents'>;
  /** Whether a line says who is writing, and whether the app is an agent of Slack's, with sessions and their Stop button. */
  readonly settings: Pick<SlackSettings, 'status' | 'agentSessions'>;
};

/** Slack takes a status away after two minutes. */
const REFRESH_MS = 90_000;
/** Slack takes a status away when the app says something; then it is shown again. */
const AFTER_POST_MS = 2_000;
const STATUS = 'assistant.threads.setStatus';
const SESSION = 'agents.sessions.setStatus';

/** Slack's answers after which a method is not tried again. */
const USELESS = new Set([
  'unknown_method',
  'missing_scope',
  'not_allowed_token_type',
  'access_denied',
  'method_deprecated',
  'feature_not_enabled',
]);

type Session = 'active' | 'processing' | 'suspended' | 'closed';

type Line = {
  readonly channel: ChannelId;
  readonly thread: string;
  writer: AgentId | null;
  shown: AgentId | null;
  session: Session | null;
  timer: Timer | null;
  /** Calls of one place go one after the other. */
  calls: Promise<void>;
};

/**
 * Who is writing, as Slack itself shows it: in threads, and in direct messages below the newest message. Channels have no
 * place for it; their card says it. Never throws. Keeps the status lines of all places.
 */
export class Statuses {
  readonly #ports: StatusesPorts;
  readonly #lines = new Map<ChannelId, Line>();
  readonly #newest = new Map<ChannelId, string>();
  readonly #useless = new Set<string>();

  constructor(ports: StatusesPorts) {
    this.#ports = ports;
  }

  /** The floor is like this now. */
  show(channel: ChannelId, view: FloorView): void {
    const { status, agentSessions } = this.#ports.settings;
    if (!status && !agentSessions) return;
    const line = this.#line(channel);
    if (line === null) return;
    line.writer = view.holder?.status === 'ACTIVE' ? view.holder.agent : null;
    if (line.writer !== line.shown) this.#write(line);
    this.#tell(line, sessionOf(view));
    if (view.condition === 'resting' && line.writer === null) this.#lines.delete(channel);
  }

  /** A message by somebody stands in the channel. */
  anchor(channel: ChannelId, message: MessageId): void {
    if (isDirect(channel)) this.#newest.set(channel, platformMessage(message).ts);
  }

  /** The app said something, which took the status away. */
  posted(channel: ChannelId): void {
    const line = this.#lines.get(channel);
    if (line === undefined || line.shown === null) return;
    line.shown = null;
    this.#arm(line, AFTER_POST_MS);
  }

  /** Takes all status lines away; resolves when that was tried. */
  async stop(): Promise<void> {
    for (const line of this.#lines.values()) {
      line.timer?.cancel();
      line.writer = null;
      if (line.shown !== null) this.#write(line);
      if (line.session === 'processing') this.#tell(line, 'suspended');
    }
    await Promise.all([...this.#lines.values()].map(({ calls }) => calls));
  }

  #line(channel: ChannelId): Line | null {
    const known = this.#lines.get(channel);
    if (known !== undefined) return known;
    const thread = platformChannel(channel).thread ?? this.#newest.get(channel) ?? null;
    if (thread === null) return null;
    const line: Line = {
      channel,
      thread,
      writer: null,
      shown: null,
      session: null,
      timer: null,
      calls: Promise.resolve(),
    };
    this.#lines.set(channel, line);
    return line;
  }

  #speakerOf(agent: AgentId): NonNullable<Speaker> {
    return this.#ports.queries.agents().find(({ id }) => id === agent) ?? { id: agent, name: agent, avatar: null };
  }

  #arm(line: Line, ms: number): void {
    line.timer?.cancel();
    line.timer = this.#ports.timers.after(ms, () => {
      line.timer = null;
      if (line.writer !== null) this.#write(line);
    });
  }

  #write(line: Line): void {
    if (!this.#ports.settings.status) return;
    const { writer } = line;
    line.shown = writer;
    if (writer === null) line.timer?.cancel();
    else this.#arm(line, REFRESH_MS);
    const args = writer === null ? { status: '' } : { status: 'is writing…', ...identityOf(this.#speakerOf(writer)) };
    this.#call(line, STATUS, args);
  }

  /** Sessions belong to threads. */
  #tell(line: Line, session: Session): void {
    if (
      !this.#ports.settings.agentSessions ||
      session === line.session ||
      platformChannel(line.channel).thread === null
    )
      return;
    if (line.session === null && (session === 'closed' || session === 'active')) return;
    line.session = session;
    this.#call(line, SESSION, { status: session });
  }

  #call(line: Line, method: string, args: Readonly<Record<string, unknown>>): void {
    const { web } = this.#ports;
    const { channel, thread } = line;
    const whole = { channel_id: platformChannel(channel).channel, thread_ts: thread, ...args };
    const make = async (): Promise<void> => {
      if (!this.#useless.has(method)) await call(web, { method, channel, args: whole, answer: ANY_ANSWER });
    };
    line.calls = line.calls.then(make).catch((error: unknown) => this.#failed(line, method, error));
  }

  #failed({ channel }: Line, method: string, error: unknown): void {
    const { log } = this.#ports;
    const code = slackCode(error);
    if (code === null || !USELESS.has(code)) return log.debug({ channel, method, err: error }, 'no status shown');
    if (!this.#useless.has(method))
      log.warn({ method, why: code }, 'Slack does not take this from this app: left out from now on');
    this.#useless.add(method);
  }
}

/** What Slack's session says of a floor: its Stop button stands while it is processing. */
function sessionOf({ holder, condition }: FloorView): Session {
  if (holder !== null) return holder.status === 'ACTIVE' ? 'processing' : 'suspended';
  if (condition === 'paused') return 'suspended';
  return condition === 'open' ? 'active' : 'closed';
}
