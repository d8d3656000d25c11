import type { Question } from '../../src/turns/floor/settings.ts';
import type { Principal } from '../../src/adapters/port.ts';
import type { AgentCommand } from '../../src/turns/floor/command.ts';
import { forTurn } from '../../src/turns/drawn-for.ts';
import { missedBy, openQuestion, turnsOf, waitOf } from '../../src/turns/floor/seats.ts';
import type { Floor } from '../../src/turns/floor/floor.ts';
import type { Bot } from './bot.ts';
import type { Cast } from './cast.ts';
import type { Platform, Posted } from './platform.ts';
import type { Random } from './random.ts';
import { STORE, drawConfig } from './settings.ts';
import type { Scope } from './settings.ts';
import type { Situations } from './situations.ts';
import type { Life, Timeline } from './timeline.ts';
import { must } from './violation.ts';

/** The parts that the driver acts on. */
export type DriverPorts = {
  readonly timeline: Timeline;
  readonly random: Random;
  readonly scope: Scope;
  readonly bot: Bot;
  readonly platform: Platform;
  readonly cast: Cast;
  readonly situations: Situations;
  readonly fail: (error: unknown) => void;
  /** Called when the program stood still, with the duration in milliseconds. */
  readonly stoodStill: (ms: number) => void;
};

const ADA: Principal = { id: 'ada', name: 'Ada', roles: [] };
const MALLORY: Principal = { id: 'mallory', name: 'Mallory', roles: ['admin'] };
const ROBOT: Principal = { id: 'ada', name: 'Ada', roles: [], bot: true };
const HOUR_MS = 3_600_000;
const LASTING: Life = { alive: true };

const ACTS = {
  write: 34,
  burst: 3,
  edit: 10,
  remove: 5,
  amendAtOnce: 5,
  operate: 22,
  race: 4,
  together: 4,
  stale: 6,
  crashAgent: 2.5,
  deafen: 0.8,
  banish: 1,
  deaf: 1.5,
  down: 0.8,
  lose: 2,
  crash: 1.6,
  fuse: 1.4,
  stop: 0.9,
  reload: 1.6,
  sleep: 0.25,
  standstill: 0.6,
  nothing: 12,
} as const;

const COMMANDS = {
  skip: 22,
  stop: 8,
  pause: 5,
  resume: 6,
  start: 8,
  grant: 10,
  add: 7,
  remove: 4,
  disable: 3,
  enable: 4,
  order: 7,
  mode: 8,
  extend: 4,
  answer: 6,
  restart: 3,
  read: 5,
} as const;

/** Random acts of people, operators and the environment, one after the other. */
export class Driver {
  readonly #ports: DriverPorts;
  #written = 0;
  /** True to act no more until the started turns are over. */
  #waits = false;
  /** Questions that operators saw, the newest last. Operators may also answer closed ones. */
  readonly #questions = new Map<string, readonly Question[]>();

  constructor(ports: DriverPorts) {
    this.#ports = ports;
  }

  /** The time until the next act, in milliseconds. */
  gap(): number {
    const { random } = this.#ports;
    if (this.#waits) {
      this.#waits = false;
      return random.between(20_000, 70_000);
    }
    const kind = random.weighted({ burst: 58, talk: 30, pause: 9, break: 1.2 });
    if (kind === 'burst') return random.between(1, 1_500);
    if (kind === 'talk') return random.between(1_000, 10_000);
    return kind === 'pause' ? random.between(10_000, 60_000) : random.between(60_000, 700_000);
  }

  /** Does one act. Returns its description. */
  act(): string {
    const { random, platform, bot, timeline, situations } = this.#ports;
    const act = random.weighted(ACTS);
    const channel = random.pick(this.#ports.scope.channels);
    const barredUntil = bot.floor(channel)?.limit?.until ?? null;
    if (barredUntil !== null && random.chance(0.08)) {
      timeline.jump(Math.max(0, barredUntil + random.between(-1_000, 1_000) - timeline.now));
      return 'sleep until the day is over';
    }
    switch (act) {
      case 'write':
        return this.write(channel);
      case 'burst':
        for (let left = random.between(2, 9); left > 0; left -= 1) this.write(channel);
        return act;
      case 'edit':
      case 'remove':
        return this.#amend(channel, act);
      case 'amendAtOnce':
        return this.#amendAtOnce(channel);
      case 'operate':
        return this.#operate(channel);
      case 'race':
        return this.#race(channel);
      case 'together':
        return this.#together();
      case 'stale':
        return this.#stale(channel);
      case 'crashAgent':
      case 'deafen':
      case 'banish':
        return this.#trouble(act);
      case 'deaf':
        platform.deafUntil = timeline.now + random.between(500, 60_000);
        return act;
      case 'down':
        platform.downUntil = timeline.now + random.between(5_000, 600_000);
        return act;
      case 'lose':
        return this.#lose(channel);
      case 'crash':
        bot.crash('killed', random.chance(0.6) ? random.between(1, 2_000) : random.between(2_000, 120_000));
        return act;
      case 'fuse':
        if (bot.isAlive) bot.fuse = random.between(1, 12);
        return act;
      case 'stop':
        bot.stop(random.between(50, 30_000));
        return act;
      case 'reload':
        bot.reload(drawConfig(random, this.#ports.scope));
        return act;
      case 'sleep':
        timeline.jump(random.between(1, 9 * HOUR_MS));
        situations.reach('the machine sleeps for hours');
        return act;
      case 'standstill':
        return this.#standStill();
      case 'nothing':
        return act;
    }
  }

  /** The program stands still and notices it. The time counts against no turn. */
  #standStill(): string {
    const { random, timeline, bot, situations } = this.#ports;
    const ms = random.between(2_000, 600_000);
    timeline.jump(ms);
    timeline.stoodStillMs += ms;
    if (bot.isAlive) this.#ports.stoodStill(ms);
    situations.reach('the program stands still');
    return 'standstill';
  }

  /** Writes a message of a person or of another program. */
  write(channel: string, fixed?: string): string {
    const { random, platform, scope } = this.#ports;
    this.#written += 1;
    const agent = random.pick(scope.agents);
    const kind = random.weighted({
      plain: 50,
      mention: 18,
      first: 8,
      reply: 10,
      bot: 3,
      program: 6,
      programTo: 2,
      signal: 2,
      long: 1,
    });
    const texts = {
      plain: `message ${this.#written}`,
      mention: `@${agent} message ${this.#written}`,
      first: `${agent}: message ${this.#written}`,
      reply: `reply ${this.#written}`,
      bot: `beep ${this.#written}`,
      program: `build ${this.#written} failed`,
      programTo: `@${agent} build ${this.#written} failed`,
      signal: `they wrote ${this.#written} TURN_COMPLETE`,
      long: `message ${this.#written} ${'and so on '.repeat(200)}`,
    };
    const addressed = kind === 'reply' ? [agent] : [];
    const ignore = kind === 'bot' && fixed === undefined ? 'bot' : null;
    const isProgram = fixed === undefined && kind.startsWith('program');
    platform.write(channel, {
      author: isProgram ? 'ci' : random.pick(['ada', 'bob', 'cleo']),
      bot: isProgram,
      text: fixed ?? texts[kind],
      addressed,
      ignore,
    });
    return `write ${channel}`;
  }

  /** Cuts the connection to the platform for a while; if an agent waits, often for longer than it waits. */
  #lose(channel: string): string {
    const { random, platform, bot } = this.#ports;
    const floor = bot.floor(channel);
    const isWaiting = floor?.seats.some(({ status }) => status === 'WAITING') === true;
    const isLong = random.chance(isWaiting ? 0.8 : 0.3);
    platform.lose(isLong ? random.between(20_000, 900_000) : random.between(1, 20_000));
    return 'lose';
  }

  /** Gives a command, mostly of an operator. A command of anybody else must be refused. */
  command(channel: string, line: string, drawnFor?: string): void {
    const { platform, fail, random, situations, bot } = this.#ports;
    const { intake } = platform;
    if (intake === null) return;
    const who = random.weighted({ ada: 93, mallory: 5, robot: 2 });
    const principal = { ada: ADA, mallory: MALLORY, robot: ROBOT }[who];
    this.#startsAfresh(line);
    const judge = async (): Promise<void> => {
      const answer = await intake.command(channel, principal, line, drawnFor);
      if (who === 'ada' || !OPERATING.test(line)) return;
      must('I18', !answer.ok, () => `${who} was allowed to ${line}`);
      situations.reach('a command of somebody who may not is refused');
    };
    judge().catch((error: unknown) => bot.isAlive && platform.intake === intake && fail(error));
  }

  /** Undoes everything that keeps this floor from working. `starts`: also restarts absent agents. */
  mend(channel: string, floor: Floor, starts: boolean): void {
    const give = (line: string): void => this.#asAda(channel, line);
    if (floor.condition === 'paused' || floor.limit !== null) give('/floor resume');
    if (floor.settings.order === 'manual') give('/floor order round-robin');
    for (const agent of this.#ports.scope.agents) {
      const seat = floor.seats.find((each) => each.agent === agent);
      if (seat?.disabled === true) give(`/agent enable ${agent}`);
      if (seat !== undefined && !seat.assigned) give(`/floor add ${agent}`);
      if (starts && seat?.present === false) give(`/agent restart ${agent}`);
    }
    if (floor.seats.length === 0) give(`/floor add ${this.#ports.scope.agents[0]}`);
  }

  #asAda(channel: string, line: string): void {
    const { platform, fail } = this.#ports;
    this.#startsAfresh(line);
    platform.intake?.command(channel, ADA, line).catch(fail);
  }

  /** These commands reset the sessions' counts. */
  #startsAfresh(line: string): void {
    if (/^\/(?:agent|floor (?:add|remove)) /u.test(line)) this.#ports.cast.startAfresh();
  }

  #amend(channel: string, what: 'edit' | 'remove'): string {
    const { platform, random, bot } = this.#ports;
    const floor = bot.floor(channel);
    const standing = (ids: readonly string[]): readonly Posted[] =>
      ids.map((id) => platform.byId.get(id)).filter((posted): posted is Posted => posted?.deleted === false);
    const all = platform.history.get(channel) ?? [];
    // An administrator deletes a question that Conch asked.
    const asked = all.findLast(({ post, deleted }) => post?.asks !== undefined && !deleted);
    if (what === 'remove' && asked !== undefined && random.chance(0.25)) {
      platform.remove(asked);
      return `remove the question ${asked.id}`;
    }
    const written = all.filter(({ author, deleted }) => author !== null && !deleted);
    const turns = floor === null ? [] : turnsOf(floor);
    // Messages to change: held, in a prompt, being injected or answering a wait; new ones; and all.
    const moments = [
      standing((floor?.held ?? []).map(({ id }) => id)),
      standing(turns.flatMap(({ given }) => given).map(({ id }) => id)),
      standing(turns.flatMap(missedBy).map(({ id }) => id)),
      written.slice(-6),
      written,
    ].filter((moment) => moment.length > 0);
    const chosen = moments.length === 0 ? undefined : random.pick(random.pick(moments));
    if (chosen === undefined) return 'nothing to amend';
    this.#change(chosen, what);
    return `${what} ${chosen.id}`;
  }

  #change(posted: Posted, what: 'edit' | 'remove'): void {
    const { platform } = this.#ports;
    if (what === 'edit') platform.edit(posted, `${posted.text}, edited`);
    else platform.remove(posted);
  }

  /** A person changes a message while the program is still taking it in. */
  #amendAtOnce(channel: string): string {
    const { platform, random, timeline } = this.#ports;
    this.write(channel);
    const posted = (platform.history.get(channel) ?? []).findLast(({ author }) => author !== null);
    if (posted === undefined) return 'nothing to amend';
    for (let left = random.between(1, 3); left > 0; left -= 1) {
      timeline.after(random.between(0, 400), 'second thoughts', LASTING, () => {
        if (!posted.deleted) this.#change(posted, random.chance(0.7) ? 'edit' : 'remove');
      });
    }
    return `second thoughts about ${posted.id}`;
  }

  #operate(channel: string): string {
    const { random, bot, scope } = this.#ports;
    const floor = bot.floor(channel);
    if (floor === null) return 'nobody to command';
    this.#seen(channel, openQuestion(floor));
    const agent = random.pick(scope.agents);
    const wish = this.#wish(floor);
    const line = wish === 'answer' ? this.#answer(channel, floor) : this.#lineFor(wish, agent, floor);
    const isCard = line === '/floor skip' && random.chance(0.7);
    const drawnFor = isCard ? forTurn(STORE, floor.epoch - (random.chance(0.3) ? 1 : 0)) : undefined;
    this.command(channel, line, drawnFor);
    return `${channel} ${line} ${drawnFor ?? ''}`;
  }

  /** Answers the open question, or one that a person saw earlier. */
  #answer(channel: string, floor: Floor): string {
    const { random, cast, situations } = this.#ports;
    const asked = openQuestion(floor);
    const seen = this.#seen(channel, asked);
    const over = seen.filter(({ question }) => question !== asked?.question);
    const isLate = over.length > 0 && (asked === null || random.chance(0.35));
    const meant = isLate ? random.pick(over) : asked;
    if (meant === null) return '/allow';
    if (meant.question !== asked?.question) situations.reach('an answer to a question that is over');
    const choice = random.chance(0.7) ? 'allow' : 'reject';
    if (choice === 'allow') cast.allowed.add(meant.title);
    return `/${choice} ${meant.question}`;
  }

  /** Returns the last questions that people saw in a channel, with the open one. */
  #seen(channel: string, asked: Question | null): readonly Question[] {
    const seen = this.#questions.get(channel) ?? [];
    if (asked === null || asked.question === seen.at(-1)?.question) return seen;
    const now = [...seen, asked].slice(-5);
    this.#questions.set(channel, now);
    return now;
  }

  #wish(floor: Floor): keyof typeof COMMANDS {
    const { random } = this.#ports;
    if (openQuestion(floor) !== null && random.chance(0.6)) return 'answer';
    if (floor.condition === 'paused' && random.chance(0.4)) return 'resume';
    if (floor.limit !== null && random.chance(0.3)) return 'resume';
    if (floor.settings.order === 'manual' && random.chance(0.5)) return random.pick(['grant', 'grant', 'order']);
    if (floor.seats.some(({ disabled }) => disabled) && random.chance(0.3)) return 'enable';
    if (floor.seats.some(({ assigned }) => !assigned) && random.chance(0.3)) return 'add';
    if ((waitOf(floor.turn) ?? null) !== null && random.chance(0.25)) return random.pick(['grant', 'stop']);
    if (floor.held.length > 0 && random.chance(0.15)) return random.pick(['mode', 'stop']);
    return random.weighted(COMMANDS);
  }

  #lineFor(wish: Exclude<keyof typeof COMMANDS, 'answer'>, anyone: string, floor: Floor): string {
    const { random, scope } = this.#ports;
    const waiting = floor.seats.find(({ status }) => status === 'WAITING')?.agent;
    const agent = wish === 'grant' && waiting !== undefined && random.chance(0.6) ? waiting : anyone;
    switch (wish) {
      case 'skip':
        return random.chance(0.8) ? '/floor skip' : `/floor skip ${agent}`;
      case 'stop':
        return '/stop';
      case 'pause':
      case 'resume':
      case 'start':
        return `/floor ${wish}`;
      case 'grant':
      case 'remove':
        return `/floor ${wish} ${agent}`;
      case 'add':
        return `/floor add ${floor.seats.find(({ assigned }) => !assigned)?.agent ?? agent}`;
      case 'disable':
      case 'restart':
        return `/agent ${wish} ${agent}`;
      case 'enable':
        return `/agent enable ${floor.seats.find(({ disabled }) => disabled)?.agent ?? agent}`;
      case 'order': {
        const order = random.pick(['round-robin', 'round-robin', 'priority', 'manual', 'mention', 'facilitator']);
        return `/floor order ${order} ${random.chance(0.4) ? random.shuffled(scope.agents).join(' ') : ''}`;
      }
      case 'mode':
        return `/floor mode ${random.pick(['inject', 'queue', 'interrupt', 'parallel', 'steer'])}`;
      case 'extend':
        return `/floor extend ${random.between(1, 300)}`;
      case 'read':
        return random.pick([
          '/floor status',
          '/queue',
          '/floor log 3',
          '/agent list',
          '/whoami',
          '/help',
          '/why m9999',
          '/floor mode',
        ]);
    }
  }

  /** Gives the floor an agent's act from a turn that is over, or without a turn. */
  #stale(channel: string): string {
    const { random, bot, scope, timeline, fail, situations } = this.#ports;
    const { store } = bot;
    const floor = bot.floor(channel);
    if (store === null || floor === null) return 'no floor for a stale act';
    const holder = floor.turn?.agent;
    const isOld = holder !== undefined && random.chance(0.5);
    const agent = isOld ? holder : random.pick(scope.agents);
    const epoch = agent === holder ? floor.epoch - random.between(1, 3) : floor.epoch + random.between(-2, 1);
    const command = random.pick<AgentCommand>([
      { type: 'say', agent, epoch, text: 'too late', mentions: [] },
      { type: 'end', agent, epoch, outcome: 'completed', signalled: true },
      { type: 'wait', agent, epoch, reason: 'answer' },
      { type: 'work', agent, epoch, open: 1 },
      { type: 'interrupted', agent, epoch },
      { type: 'choose', agent, ask: floor.asks - 1, next: agent },
    ]);
    const judge = async (): Promise<void> => {
      const applied = await store.floors.apply(channel, command, timeline.now);
      must('I2', !applied.ok, () => `${command.type} of ${agent} #${epoch} counted in ${channel}`);
      situations.reach('an act without the floor is refused');
    };
    judge().catch((error: unknown) => bot.isAlive && fail(error));
    return `stale ${command.type} of ${agent} in ${channel}`;
  }

  /** Starts turns in all channels within milliseconds. No agent ends its turn, so their limits are close. */
  #together(): string {
    const { random, cast, timeline, scope } = this.#ports;
    let inMs = 0;
    for (const channel of scope.channels) {
      timeline.after(inMs, 'together', LASTING, () => {
        this.#asAda(channel, '/stop');
        this.#asAda(channel, '/floor start');
      });
      inMs += random.between(0, 4);
    }
    cast.hangUntil = timeline.now + 2_000;
    this.#waits = true;
    return 'together';
  }

  /** Does two things in the same instant. */
  #race(channel: string): string {
    const { random, cast, bot } = this.#ports;
    const floor = bot.floor(channel);
    const epoch = floor?.turn?.epoch;
    const drawnFor = epoch === undefined ? undefined : forTurn(STORE, epoch);
    const session = cast.sessions.find(
      (each) => each.channel === channel && each.epoch === epoch && epoch !== undefined,
    );
    const kind = random.pick(['skips', 'completion', 'crash', 'writes', 'stop']);
    if (kind === 'skips') {
      this.command(channel, '/floor skip', drawnFor);
      this.command(channel, '/floor skip', drawnFor);
    } else if (kind === 'completion') {
      const isFirst = random.chance(0.5);
      if (isFirst) session?.complete();
      this.command(channel, '/floor skip', drawnFor);
      if (!isFirst) session?.complete();
    } else if (kind === 'crash') {
      session?.crash();
      this.command(channel, random.pick(['/stop', '/floor skip', '/floor pause']));
    } else if (kind === 'writes') {
      this.write(channel);
      this.command(channel, '/stop');
      this.write(channel);
    } else {
      this.write(channel);
      this.command(channel, '/floor start');
      this.command(channel, '/stop');
    }
    return `race ${channel} ${kind}`;
  }

  #trouble(what: 'crashAgent' | 'deafen' | 'banish'): string {
    const { random, cast, timeline } = this.#ports;
    const busy = cast.sessions.filter(({ generating }) => generating);
    const from = busy.length > 0 && random.chance(0.7) ? busy : cast.sessions;
    if (from.length === 0) return 'nobody to trouble';
    const session = random.pick(from);
    if (what === 'deafen') session.isDeaf = true;
    else session.crash();
    if (what === 'banish') {
      const isAll = random.chance(0.4);
      const until = timeline.now + random.between(3_000, 200_000);
      for (const each of cast.sessions.filter(({ agent }) => isAll || agent === session.agent)) {
        cast.goneUntil.set(each.agent, until);
        if (isAll) each.isGone = true;
        each.crash();
      }
    }
    return `${what} ${session.agent} in ${session.channel}`;
  }
}

const OPERATING =
  /^\/(?:stop|(?:allow|reject) \d|floor (?:skip|pause|resume|start|grant|remove|add|extend|order \w|mode \w)|agent (?:enable|disable|restart))/u;
