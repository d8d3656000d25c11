import { basename } from 'node:path';
import { parseEnv } from 'node:util';
import { systemClock, systemTimers } from '../../lib/time.ts';
import type { Instant, Clock, Timer, Timers } from '../../lib/time.ts';
import type { AgentId, ChannelId } from '../../turns/floor/settings.ts';
import type { Answer, Person, TrustCommands } from '../../turns/commands/context.ts';
import { parseSessionId } from '../../turns/floor/seats.ts';
import type { SystemCommand } from '../../turns/floor/command.ts';
import { UntrustedError } from '../backends/backend.ts';
import type { RepositoryFile, FilePower } from './repository-files.ts';
import { FileHashes, idOf, scanFolder } from './folder-scan.ts';
import type { FolderScan, FoundFile } from './folder-scan.ts';
import { TrustBook } from './trust-book.ts';
import type { TrustDecision, TrustStore } from './trust-book.ts';
import { visible } from '../../lib/visible.ts';

/** Where an agent runs, and which files it obeys there. */
export type AgentFolder = {
  readonly cwd: string;
  readonly files: readonly RepositoryFile[];
  /** The folder of the agent's own settings. Default: the user's home. */
  readonly home?: string | undefined;
};

type Seat = { readonly agent: AgentId; readonly channel: ChannelId };

/** The trust check of one agent. */
export type FolderGate = {
  /**
   * Resolves when the agent may work in its folder. Otherwise rejects with an `UntrustedError`. Then also asks the
   * people of the channel, unless an operator refused these files.
   */
  admit(seat: Seat): Promise<void>;
  /**
   * Checks again whether the agent may work in its folder, and rejects if not. Resolves without a check when the last
   * check ended less than 50 times its duration ago.
   */
  glance(seat: Seat): Promise<void>;
};

/** The channels in which people are asked whether they trust a folder's files. */
type TrustChannels = {
  readonly tell: (channel: ChannelId, command: TrustCommand) => void;
  readonly channelsOf: (agent: AgentId) => readonly ChannelId[];
  /** Redacts secrets. */
  readonly clean: (text: string) => string;
};

/** The commands about trust that floors get. */
export type TrustCommand = Extract<SystemCommand, { type: 'askTrust' | 'answerTrust' | 'dropTrust' }>;

/** The scan of an agent's folder, and the decision about it. */
export type FolderStanding = { readonly scan: FolderScan; readonly decision: TrustDecision | null };

/** Dependencies of `FolderTrust`. */
export type FolderTrustPorts = { readonly store: TrustStore; readonly clock: Clock; readonly timers: Timers };

/**
 * Decides whether agents may be started in their folders. A folder with files that act before any approval is opened
 * only if an operator trusts exactly these files.
 */
export class FolderTrust implements TrustCommands {
  readonly book: TrustBook;
  readonly #ports: FolderTrustPorts;
  readonly #folders = new Map<AgentId, WatchedFolder>();
  readonly #owners = new Map<AgentId, string>();
  #channels: TrustChannels | null = null;
  #poll: Timer | null = null;
  #isStopped = false;

  constructor(ports: FolderTrustPorts) {
    this.#ports = ports;
    this.book = new TrustBook(ports.store);
  }

  /** Sets the channels in which people are asked. */
  connect(channels: TrustChannels): void {
    this.#channels = channels;
  }

  stop(): void {
    this.#isStopped = true;
    this.#poll?.cancel();
  }

  /**
   * Returns the trust check of an agent in this folder. A later call for the same agent replaces the folder. `owner`:
   * decisions count for all agents with this owner, such as the workers of a crew. Default: for the agent alone.
   */
  gateFor(agent: AgentId, folder: AgentFolder, owner: string = agent): FolderGate {
    const watched = new WatchedFolder(folder, this.#ports.clock);
    this.#folders.set(agent, watched);
    this.#owners.set(agent, owner);
    return {
      admit: async ({ channel }) => await this.#judge({ agent, channel }, watched),
      glance: async ({ channel }) => {
        if (watched.isLookDue()) await this.#judge({ agent, channel }, watched);
      },
    };
  }

  /**
   * Scans an agent's folder and finds the decision about it; `null` for an agent without a trust check of `gateFor`.
   */
  async standing(agent: AgentId): Promise<FolderStanding | null> {
    const folder = this.#folders.get(agent);
    if (folder === undefined) return null;
    const scan = await folder.scan();
    return { scan, decision: this.#decisionOn(agent, scan) };
  }

  /** The line of `/agent status` about an agent's folder; `null` for an agent without a trust check of `gateFor`. */
  async status(agent: AgentId): Promise<string | null> {
    const state = await this.standing(agent);
    return state === null ? null : standingWords(agent, state);
  }

  async trust(agent: AgentId, id: string | null, request: TrustRequest): Promise<Answer> {
    const state = await this.standing(agent);
    const digest = state?.scan.digest ?? null;
    if (state === null || digest === null) return { ok: false, text: `There is nothing to trust: ${NO_FILES}.` };
    const current = idOf(digest);
    const detail = foundDetail(state.scan, this.#clean);
    const trust = state.scan.incomplete === undefined ? `/agent trust ${agent} ${current} to trust these files, ` : '';
    const say = `Say ${trust}/agent distrust ${agent} ${current} to refuse them.`;
    if (id === null) return { ok: false, text: `${standingWords(agent, state)}\n\`\`\`\n${detail}\n\`\`\`\n${say}` };
    if (id !== current) return this.#refusal({ agent, channel: request.channel }, { id, state });
    if (state.scan.incomplete !== undefined) return { ok: false, text: `Not done: ${unseenWords(state.scan)}.` };
    if (state.decision?.choice === 'trusted')
      return { ok: false, text: 'These files are trusted already. Nothing was changed.' };
    await this.#decide({ agent, choice: 'trusted', digest }, state.scan, request);
    return {
      ok: true,
      text: `Trusted for ${agent}: ${namesOf(state.scan.files)}. Conch starts ${agent} when it has work.`,
    };
  }

  /**
   * Refuses the folder's present files: the agent is not started there. `id`: the `idOf` of these files; an outdated id
   * is refused. `null`: also revokes all earlier decisions for the agent; of a worker, for its whole crew.
   */
  async distrust(agent: AgentId, id: string | null, request: TrustRequest): Promise<Answer> {
    const state = await this.standing(agent);
    const digest = state?.scan.digest ?? null;
    const revoked = id === null ? await this.book.forget(this.#ownerOf(agent)) : 0;
    if (state === null || digest === null)
      return revoked === 0
        ? { ok: false, text: `There are no files to refuse: ${NO_FILES}.` }
        : { ok: true, text: `Revoked ${revoked} decision(s) for ${agent}: ${NO_FILES}.` };
    if (id !== null && id !== idOf(digest)) return this.#refusal({ agent, channel: request.channel }, { id, state });
    await this.#decide({ agent, choice: 'left', digest }, state.scan, request);
    const how = `Conch does not start ${agent} there and does not ask again until these files change.`;
    return { ok: true, text: `Not trusted: ${how} /agent trust ${agent} shows them again.` };
  }

  async #decide(
    { agent, choice, digest }: Pick<TrustDecision, 'choice' | 'digest'> & { readonly agent: AgentId },
    { folder: scanned, files }: FolderScan,
    { person }: TrustRequest,
  ): Promise<void> {
    const at = this.#ports.clock.now();
    const names = files.slice(0, MOST_NAMES).map(({ path }) => path);
    await this.book.record(this.#ownerOf(agent), { digest, choice, by: person.id, at, folder: scanned, files: names });
    const by = this.#clean(person.name);
    this.#tellAll(agent, { type: 'dropTrust', agent, keeps: idOf(digest) });
    this.#tellAll(agent, { type: 'answerTrust', agent, id: idOf(digest), choice, by });
    if (choice !== 'trusted') return;
    const owner = this.#ownerOf(agent);
    for (const [other, folder] of this.#folders) if (this.#ownerOf(other) === owner) folder.wake();
  }

  /**
   * Returns the decision about these files; `null` for none. Trust does not count while the scan is incomplete: nobody
   * saw all contents.
   */
  #decisionOn(agent: AgentId, { digest, incomplete }: FolderScan): TrustDecision | null {
    const decision = digest === null ? null : this.book.find(this.#ownerOf(agent), digest);
    return incomplete !== undefined && decision?.choice === 'trusted' ? null : decision;
  }

  #ownerOf(agent: AgentId): string {
    return this.#owners.get(agent) ?? agent;
  }

  #refusal(seat: Seat, { id, state }: { readonly id: string; readonly state: FolderStanding }): Answer {
    if (state.decision === null) this.#ask(seat, state.scan);
    const text = `Not done: ${id} does not match the files now in ${seat.agent}'s folder. Run /agent trust ${seat.agent} to see them.`;
    return { ok: false, text };
  }

  async #judge(seat: Seat, folder: WatchedFolder): Promise<void> {
    const scan = await folder.look();
    const { agent } = seat;
    const { digest } = scan;
    const decision = this.#decisionOn(agent, scan);
    if (digest === null || decision?.choice === 'trusted') {
      if (folder.refused === null) return;
      this.#tellAll(agent, { type: 'dropTrust', agent, keeps: null });
      folder.refused = null;
      // Wakes the agent's other channels, which wait for the same change.
      folder.wake();
      return;
    }
    folder.refused = digest;
    if (decision === null) this.#ask(seat, scan);
    this.#watch();
    throw new UntrustedError(untrustedWords(agent, scan, decision), { returns: folder.changed, graceMs: 0 });
  }

  #ask({ agent, channel }: Seat, scan: FolderScan): void {
    const id = idOf(scan.digest ?? '');
    this.#tellAll(agent, { type: 'dropTrust', agent, keeps: id });
    const detail = foundDetail(scan, this.#clean);
    this.#channels?.tell(parseSessionId(channel).channel, {
      type: 'askTrust',
      agent,
      id,
      folder: this.#clean(scan.folder),
      detail,
    });
  }

  #tellAll(agent: AgentId, command: TrustCommand): void {
    for (const channel of this.#channels?.channelsOf(agent) ?? []) this.#channels?.tell(channel, command);
  }

  get #clean(): (text: string) => string {
    return this.#channels?.clean ?? ((text) => text);
  }

  #watch(): void {
    if (this.#poll !== null || this.#isStopped || this.#channels === null) return;
    this.#poll = this.#ports.timers.after(POLL_MS, () => {
      void this.#lookAgain().finally(() => {
        this.#poll = null;
        if ([...this.#folders.values()].some(({ refused }) => refused !== null)) this.#watch();
      });
    });
  }

  async #lookAgain(): Promise<void> {
    for (const folder of this.#folders.values()) {
      if (folder.refused === null || !folder.isLookDue()) continue;
      const { digest } = await folder.look();
      if (digest !== folder.refused) folder.wake();
    }
  }
}

/**
 * Returns a trust check that refuses the folder if it has files of `folder.files`, because no channel exists in which
 * people could decide.
 */
export function closedGate(folder: AgentFolder): FolderGate {
  const store: TrustStore = { recall: () => null, remember: async () => {} };
  const trust = new FolderTrust({ store, clock: systemClock(), timers: systemTimers });
  return trust.gateFor('', folder);
}

/** A check that every folder passes: for workers of a crew whose repository the configuration trusts. */
export const OPEN_GATE: FolderGate = { admit: async () => {}, glance: async () => {} };

type TrustRequest = { readonly channel: ChannelId; readonly person: Person };

class WatchedFolder {
  /** Digest of the files with which the agent was last refused; `null` when the agent was not refused. */
  refused: string | null = null;
  readonly #folder: AgentFolder;
  readonly #clock: Clock;
  readonly #hashes = new FileHashes();
  #waiting = Promise.withResolvers<void>();
  #look: { readonly at: Instant; readonly tookMs: number } | null = null;

  constructor(folder: AgentFolder, clock: Clock) {
    this.#folder = folder;
    this.#clock = clock;
  }

  /** Resolves when the files or the decision may have changed. */
  get changed(): Promise<void> {
    return this.#waiting.promise;
  }

  wake(): void {
    this.#waiting.resolve();
    this.#waiting = Promise.withResolvers();
  }

  async scan(): Promise<FolderScan> {
    const { cwd, files, home } = this.#folder;
    return await scanFolder(cwd, files, { hashes: this.#hashes, ...(home !== undefined && { home }) });
  }

  /**
   * Scans the folder, and delays the next regular scan by 50 times the duration of this scan. Only for callers that act
   * on the result.
   */
  async look(): Promise<FolderScan> {
    const at = this.#clock.now();
    const scan = await this.scan();
    const now = this.#clock.now();
    this.#look = { at: now, tookMs: now - at };
    return scan;
  }

  /** Returns whether the next regular scan is due. Regular scans may take at most 2 % of the time. */
  isLookDue(): boolean {
    return this.#look === null || this.#clock.now() - this.#look.at >= this.#look.tookMs * RARER;
  }
}

const NO_FILES = 'its folder has no file that takes effect before anybody is asked';
const POLL_MS = 5_000;
const RARER = 50;
const MOST_NAMES = 100;

function unseenWords({ incomplete = '' }: Pick<FolderScan, 'incomplete'>): string {
  const why = 'Conch could not see everything that the agent would obey';
  return `${why} (${shown(incomplete)}). Make it readable to Conch's user, or take it out of the folder`;
}

function untrustedWords(agent: AgentId, scan: FolderScan, decision: TrustDecision | null): string {
  const { files, digest, incomplete } = scan;
  const is = decision === null ? 'its folder is not trusted' : 'its folder was refused';
  if (incomplete !== undefined) return `${is}: ${unseenWords(scan)}`;
  return `${is}: ${namesOf(files)} (${idOf(digest ?? '')}). /agent trust ${agent} shows what they do`;
}

/** An agent's folder, its files, and whether it is trusted, in one line. */
export function standingWords(agent: AgentId, { scan, decision }: FolderStanding): string {
  const { folder, files, digest } = scan;
  if (digest === null) return `Folder ${folder}: ${NO_FILES.replace('its folder has ', '')}`;
  const found = `Folder ${folder}: ${namesOf(files)} (${idOf(digest)})`;
  const unseen = scan.incomplete === undefined ? '' : ` ${unseenWords(scan)}.`;
  if (decision === null) return `⚠ ${found}: not trusted. ${agent} is not started there.${unseen}`;
  const when = `${decision.by}, ${new Date(decision.at).toISOString()}`;
  return decision.choice === 'trusted' ? `${found}: trusted by ${when}` : `⚠ ${found}: refused by ${when}`;
}

/** The powers of a file in words for operators. */
const POWERS: Readonly<Record<FilePower, string>> = {
  run: 'run programs',
  load: 'load code or tool servers',
  redirect: 'send requests and keys to another host',
  allow: 'free the agent from asking',
};

/** The names of the first three files, and the number of the others: "opencode.json, .mcp.json, .env and 3 more". */
export function namesOf(files: readonly FoundFile[]): string {
  const named = files.slice(0, MOST_IN_A_LINE).map(({ path }) => shown(path));
  const more = files.length - named.length;
  return `${named.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/**
 * The files of a folder for operators, at most 20: names, powers, and the beginnings of texts. Each text has at most
 * 2,000 characters, and all together have at most 5,000, shared evenly among the long texts. A cut text ends with the
 * file's size. Invisible characters are shown; `clean` redacts secrets.
 */
export function foundDetail(scan: Pick<FolderScan, 'files' | 'incomplete'>, clean: (text: string) => string): string {
  const { files, incomplete } = scan;
  const listed = files.slice(0, MOST_LISTED).map((file) => `${headOf(file)}\n  ${powersOf(file)}`);
  const more = files.length - listed.length;
  const texts = files.slice(0, MOST_LISTED).flatMap((file) => {
    const text = cut(file, clean, MOST_OF_ONE);
    return text === null ? [] : [{ file, length: text.length }];
  });
  const most = evenShare(texts.map(({ length }) => length));
  const contents = texts.map(({ file }) => `=== ${headOf(file)}\n${cut(file, clean, most)}`);
  const unseen = more > 0 ? [`… and ${more} more files, not listed here`] : [];
  const first = incomplete === undefined ? [] : [`These files cannot be trusted: ${unseenWords(scan)}.`];
  return [...first, ...listed, ...unseen, ...contents].join('\n');
}

function headOf({ path, size, remark }: FoundFile): string {
  const bytes = size === null ? [] : [`${size.toLocaleString('en-US')} bytes`];
  const facts = [...bytes, ...(remark === null ? [] : [shown(remark)])];
  return `${shown(path)}${facts.length === 0 ? '' : ` (${facts.join(', ')})`}`;
}

function powersOf({ can, note }: FoundFile): string {
  return `can ${can.map((power) => POWERS[power]).join(', ')}: ${note}`;
}

function evenShare(lengths: readonly number[]): number {
  let left = MOST_SHOWN;
  for (const [at, length] of lengths.toSorted((one, other) => one - other).entries()) {
    const share = Math.floor(left / (lengths.length - at));
    if (length > share) return Math.min(share, MOST_OF_ONE);
    left -= length;
  }
  return MOST_OF_ONE;
}

function cut({ path, text, size }: FoundFile, clean: (text: string) => string, most: number): string | null {
  if (text === null) return null;
  const whole = visible(clean(withoutValues(path, text.replaceAll('\r\n', '\n'))));
  if (whole.length <= most && Buffer.byteLength(text) >= (size ?? 0)) return whole;
  const beginning = whole.slice(0, most).toWellFormed();
  return `${beginning}\n[cut here: the first ${beginning.length} characters of ${(size ?? 0).toLocaleString('en-US')} bytes]`;
}

/**
 * The names of the variables in a file such as `.env`: the values may be secrets. Other texts are not changed. Behind a
 * quote that is not closed, a line of the value may look like a variable, so no name is shown there.
 */
function withoutValues(path: string, text: string): string {
  if (!/^\.env/i.test(basename(path))) return text;
  const all = Object.entries(parseEnv(text)).filter(([name]) => /^[A-Za-z_]\w*$/.test(name));
  const open = all.findIndex(([, value]) => /^["'`]/.test(value ?? ''));
  const names = all.slice(0, open === -1 ? all.length : open + 1).map(([name]) => name);
  return names.length === 0 ? '(values are not shown)' : `${names.join(', ')} (values are not shown)`;
}

function shown(name: string): string {
  const plain = visible(name).replaceAll(/\s+/g, ' ');
  return plain.length > MOST_NAME ? `${plain.slice(0, MOST_NAME)}…` : plain;
}

const MOST_IN_A_LINE = 3;
const MOST_LISTED = 20;
const MOST_NAME = 160;
const MOST_OF_ONE = 2_000;
const MOST_SHOWN = 5_000;
