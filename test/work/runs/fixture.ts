import { emptyRuns } from '../../../src/work/runs/run.ts';
import type { RunState } from '../../../src/work/runs/run.ts';
import type { RequestedCall, RunCommand, RunFact, RunRefusal } from '../../../src/work/runs/run-events.ts';
import { runMachine } from '../../../src/work/runs/run-machine.ts';
import { publishedOf } from '../../../src/work/runs/run-published.ts';

export const AT = Date.UTC(2026, 10, 22, 12);
export const WAIT_MS = 600_000;
export const KEY = 'console:demo dev';

type Of<Type extends RunCommand['type']> = Extract<RunCommand, { type: Type }>;

/** Gives commands to a run. Accepted commands change `state`; `refusal` has the refusal of the last command. */
export class RunBench {
  state: RunState = emptyRuns(KEY);
  at = AT;
  refusal: RunRefusal | null = null;
  facts: readonly RunFact[] = [];
  readonly journal: { readonly at: number; readonly fact: RunFact }[] = [];

  do(...commands: readonly RunCommand[]): this {
    for (const command of commands) this.#do(command);
    return this;
  }

  get status(): string {
    return this.state.status;
  }

  get approval() {
    return this.state.run?.pause?.approval ?? null;
  }

  get open(): readonly string[] {
    return (this.state.run?.calls ?? []).map(
      ({ id, status, cleared }) => `${id} ${cleared ? 'cleared ' : ''}${status}`,
    );
  }

  /** The calls that the last command ended, each with its outcome. */
  get ended(): readonly string[] {
    return this.facts.flatMap((fact) =>
      fact.type === 'callSettled'
        ? [`${fact.call} ${fact.code ?? fact.status}${fact.outcome === 'unknown' ? ' unknown' : ''}`]
        : [],
    );
  }

  /** The actions that a gate, an agent or a floor takes after the facts of the last command. */
  get todo(): readonly string[] {
    return this.facts.flatMap((fact) => {
      switch (fact.type) {
        case 'callCleared': {
          const isOwn = this.state.run?.calls.some(({ id, source }) => id === fact.call && source === 'conch') === true;
          return [`${isOwn ? 'dispatch' : 'allow'} ${fact.call}`];
        }
        case 'callSettled':
          return fact.refused ? [`reject ${fact.call}`] : [];
        case 'paused':
          return fact.approval === null ? [] : [`ask for ${fact.approval.call}`];
        case 'approvalClosed':
          return [`question ${fact.state}`];
        case 'approvalDetached':
          return ['question detached'];
        default:
          return [];
      }
    });
  }

  get published(): readonly string[] {
    return this.facts.flatMap((fact) => publishedOf(fact, this.state).map(({ type }) => type));
  }

  #do(command: RunCommand): void {
    const decision = runMachine.decide(this.state, command, this.at);
    this.refusal = decision.ok ? null : decision.refusal;
    this.facts = decision.facts.map((fact) => runMachine.fact.parse(JSON.parse(JSON.stringify(fact))));
    this.journal.push(...this.facts.map((fact) => ({ at: this.at, fact })));
    const state = this.facts.reduce((before, fact) => runMachine.evolve(before, fact, this.at), this.state);
    this.state = runMachine.state.parse(JSON.parse(JSON.stringify(state)));
  }
}

export function start(more: Partial<Of<'START'>> = {}): RunCommand {
  const task = { id: 'task-1', column: 'backlog' };
  const common = { runType: 'task', prompt: 'Build feature X', session: 's1', by: 'ann', waitMs: WAIT_MS } as const;
  return { type: 'START', ...common, allowedTools: null, task, ...more };
}

export function step(turn: number, toolCalls: readonly RequestedCall[] = [], session = 's1'): RunCommand {
  return { type: 'STEP', session, turn, toolCalls: [...toolCalls] };
}

export function call(id: string, more: Partial<RequestedCall> = {}): RequestedCall {
  const tool = { tool: 'mcp__files__write', input: { path: id }, digest: `d-${id}`, rule: null };
  return { id, ...tool, source: 'conch', verdict: 'allow', repeatable: false, ...more };
}

export const asking = (id: string, more: Partial<RequestedCall> = {}) => call(id, { verdict: 'ask', ...more });
export const request = (...all: readonly RequestedCall[]): RunCommand => ({
  type: 'REQUEST',
  session: 's1',
  calls: all.map((one) => ({ ...one, source: 'agent' })),
});
export const pause = (reason: Of<'PAUSE'>['reason'] = 'user_input'): RunCommand => ({ type: 'PAUSE', reason });
export const resume = (more: Partial<Of<'RESUME'>> = {}): RunCommand => ({ type: 'RESUME', by: 'ann', ...more });
export const abort: RunCommand = { type: 'ABORT', reason: 'not needed', by: 'ann' };
export const complete: RunCommand = { type: 'COMPLETE', session: 's1', result: 'done' };
export const tick: RunCommand = { type: 'TICK' };
export const recover: RunCommand = { type: 'RECOVER' };

export function error(recoverable: boolean, type: 'ERROR' | 'LOST' = 'ERROR'): RunCommand {
  return { type, session: 's1', error: { code: 'AGENT_EXECUTION_ERROR', message: 'it fell over', recoverable } };
}

export function claim(id: string, more: Partial<Of<'CLAIM'>> = {}): RunCommand {
  return { type: 'CLAIM', call: id, digest: `d-${id}`, verdict: 'allow', ...more };
}

export function settle(id: string, status: 'complete' | 'error' = 'complete'): RunCommand {
  return { type: 'SETTLE', call: id, status, output: 'ok', duration: 5, code: null };
}

export function decide(bench: RunBench, choice: 'allow' | 'deny', more: Partial<Of<'DECIDE'>> = {}): RunCommand {
  const { id = 'none', digest = 'none' } = bench.approval ?? {};
  return { type: 'DECIDE', approval: id, digest, choice, by: 'ann', via: 'console', ...more };
}

/** Returns a run that is in this status. */
export function runIn(status: RunState['status']): RunBench {
  const bench = new RunBench();
  switch (status) {
    case 'idle':
      return bench;
    case 'starting':
      return bench.do(start());
    case 'running':
      return bench.do(start(), step(1));
    case 'paused':
      return bench.do(start(), step(1), pause());
    case 'error':
      return bench.do(start(), step(1), error(true));
    case 'completed':
      return bench.do(start(), step(1), complete);
  }
}
