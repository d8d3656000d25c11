import type { Report, TurnPrompt } from '../../../src/agents/backends/backend.ts';
import type { GatedCall, ToolGate } from '../../../src/agents/tools/tool-gate.ts';
import type { Choice } from '../../../src/turns/floor/settings.ts';
import type { Line } from '../../../src/turns/view.ts';

/** A line of a person. */
export function person(line: number, text: string, more: Partial<Line> = {}): Line {
  const author = { kind: 'person', id: 'u1', name: 'Anna' } as const;
  return { line, at: 0, author, text, attachments: [], message: `m${line}`, change: null, ...more };
}

/** A line of an agent. */
export function spoken(line: number, id: string, text: string): Line {
  return { line, at: 0, author: { kind: 'agent', id, name: id }, text, attachments: [], message: null, change: null };
}

/** A prompt for one of three agents. `messages`: the lines of people to answer. */
export function prompt(more: Partial<TurnPrompt>): TurnPrompt {
  const roster = ['pm', 'dev', 'qa'].map((id) => ({ id, name: id, status: 'QUEUED', description: '' }));
  const base = {
    channel: 'console:demo',
    epoch: 1,
    reason: 'grant',
    open: [],
    saidSoFar: [],
    roster,
    system: '',
    longest: 32_000,
    text: '',
  } as const;
  const parts = [{ own: false, text: more.text ?? '' }];
  return { ...base, parts, lines: more.messages ?? [], messages: [], ...more };
}

/** A gate that allows every step, and answers each request by `chooses`. `cancelled`: nobody decides. */
export function gateThat(
  chooses: (call: GatedCall, stopped: AbortSignal) => Choice | 'cancelled' | Promise<Choice | 'cancelled'>,
): ToolGate {
  return {
    step: async () => 'go',
    async ask(call, stopped) {
      const choice = await chooses(call, stopped);
      if (choice === 'allow') return { verdict: 'go' };
      return { verdict: 'refused', code: choice === 'reject' ? 'DENIED' : 'CANCELLED', words: 'People denied it.' };
    },
    spent: async () => 'stop',
    standing: () => null,
    unfinished: async () => null,
    settled: async () => {},
    reported: async () => {},
    close: async () => {},
  };
}

/** A report that records messages and other calls. */
export function recorder() {
  const messages: string[] = [''];
  const events: string[] = [];
  const report: Report = {
    text: (chunk) => void (messages[messages.length - 1] += chunk),
    flush: () => void messages.push(''),
    work: (open, by) => void events.push(by === 'host' ? `host ${open}` : `work ${open}`),
    gate: gateThat(() => 'reject'),
    leftMs: () => 0,
    now: () => 0,
    usage: ({ tokens }) => void events.push(tokens > 0 ? 'tokens' : 'no tokens'),
  };
  return { report, events, messages, text: () => messages.join('\n---\n') };
}

/** A usage report that drops everything, for `choose`. */
export const UNHEARD: Pick<Report, 'usage' | 'now'> = { usage: () => {}, now: () => 0 };
