import type { Planted } from './planted.ts';

/** Bugs outside the core, in the deadlines of many channels. Each text must be in its file exactly once. */
export const PLANTED_ROUNDS: readonly Planted[] = [
  {
    name: 'what falls due while deadlines are met is passed over',
    file: 'turns/manager.ts',
    find: '() => void this.#meetDeadlines());',
    replace: `() => {
      const tick = async () => {
        const { keys } = await ports.store.floors.due(ports.clock.now());
        await Promise.all(keys.map((channel) => this.apply(channel, { type: 'tick' })));
        const { next } = await ports.store.floors.due(ports.clock.now());
        if (this.#running) this.#alarm.noLaterThan(next);
      };
      tick().catch(ports.failed);
    });`,
  },
  {
    name: 'a round looks once, and sets no alarm for what comes after',
    file: 'turns/manager.ts',
    find: '      for (const failure of failures) this.#unmet(failure);\n',
    replace: '      for (const failure of failures) this.#unmet(failure);\n      return;\n',
  },
  {
    name: 'an alarm that rings during a round is forgotten',
    file: 'turns/manager.ts',
    find: '    this.#rang = true;\n    if (this.#meeting) return;\n',
    replace: '    if (this.#meeting) return;\n    this.#rang = true;\n',
  },
  {
    name: 'a deadline that could not be written is not tried again',
    file: 'turns/manager.ts',
    find: '    this.#arm(this.#ports.clock.now() + RETRY_MS);\n',
    replace: '',
  },
  {
    name: 'a failed commit ends the round for all channels',
    file: 'turns/manager.ts',
    find: '          failures.add(error);\n',
    replace: '          throw error;\n',
  },
  {
    name: 'a commit that failed is told to nobody',
    file: 'turns/manager.ts',
    find: '    this.#ports.failed(error);\n',
    replace: '',
  },
  {
    name: 'a commit sets no alarm',
    file: 'turns/manager.ts',
    find: '    this.#arm(deadline);\n',
    replace: '',
  },
  {
    name: 'what is due in a millisecond counts as due',
    file: 'turns/manager.ts',
    find: 'next } = await this.#ports.store.floors.due(before)',
    replace: 'next } = await this.#ports.store.floors.due(before + 1)',
  },
  {
    name: 'a command is dated a millisecond ahead',
    file: 'turns/manager.ts',
    find: '    const at = this.#ports.clock.now();\n    const draft = this.#drafts',
    replace: '    const at = this.#ports.clock.now() + 1;\n    const draft = this.#drafts',
  },
  {
    name: 'a draft is forgotten by the very millisecond of its deadline',
    file: 'turns/floor/decide.ts',
    find: 'const { facts } = decide(floor, command, at);',
    replace: 'const { facts } = decide(floor, command, at - 1);',
  },
  {
    name: 'what Conch says by itself puts off the deadline that brought it out',
    file: 'turns/manager.ts',
    find: "{ type: 'say', ...said }",
    replace: "{ type: 'say', ...said, workedAt: at }",
  },
  {
    name: 'the clock is read again between the draft and its command',
    file: 'turns/manager.ts',
    find: 'const applied = floors.apply(channel, command, at);',
    replace: 'const applied = floors.apply(channel, command, this.#ports.clock.now());',
  },
  {
    name: 'an alarm is not moved to an earlier deadline',
    file: 'lib/time.ts',
    find: 'this.#at !== null && this.#at <= at',
    replace: 'this.#at !== null',
  },
  {
    name: 'an alarm that comes too soon is not set again',
    file: 'lib/time.ts',
    find: 'if (this.#clock.now() < at) this.noLaterThan(at);',
    replace: 'if (this.#clock.now() < at) return;',
  },
  {
    name: 'an alarm waits for the millisecond after its deadline',
    file: 'lib/time.ts',
    find: 'this.#clock.now() < at',
    replace: 'this.#clock.now() <= at',
  },
  {
    name: 'ticks that standstills made idle count as a fault of the store',
    file: 'turns/manager.ts',
    find: 'const times = dueAgain.includes(channel) ? (idleTicks.get(channel) ?? 0) + 1 : 0;',
    replace: 'const times = (idleTicks.get(channel) ?? 0) + 1;',
  },
  {
    name: 'a standstill of the process is told to no floor',
    file: 'turns/manager.ts',
    find: "this.apply(channel, { type: 'standstill', ms }).catch((error: unknown) => this.#ports.failed(error));",
    replace: '',
  },
];
