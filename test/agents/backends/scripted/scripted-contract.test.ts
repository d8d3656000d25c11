import type { AgentBackend } from '../../../../src/agents/backends/backend.ts';
import type { Step } from '../../../../src/agents/backends/scripted/demo-words.ts';
import type { Persona } from '../../../../src/agents/backends/scripted/personas.ts';
import { createScriptedBackend } from '../../../../src/agents/backends/scripted/scripted-backend.ts';
import { contract } from '../contract.ts';
import type { Act, Rig } from '../contract.ts';

contract('scripted', async () => scriptedRig());

/** Creates a rig whose scripts take no time, except a `work` step of a pause, which lasts until `release`. */
function scriptedRig(): Rig {
  const plays: (readonly Act[])[] = [];
  const seen: string[] = [];
  let arrived = Promise.withResolvers<void>();
  let gate = Promise.withResolvers<void>();
  const sleep = async (ms: number, signal: AbortSignal) => {
    signal.throwIfAborted();
    if (ms !== PAUSE_MS) return;
    arrived.resolve();
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(new Error('aborted')), { once: true });
    });
    await Promise.race([gate.promise, aborted]);
  };
  const steps = () => (plays.shift() ?? [{ do: 'write', text: 'Noted.' }]).flatMap(stepsOf);
  const script: Persona = {
    reply: () => (plays[0]?.some((act) => act.do === 'hang') ? (arrived.resolve(), steps()) : steps()),
    note: ({ text }) => (seen.push(text), `Noted: ${text}`),
    answer: () => 'Noted.',
  };
  const scripted = createScriptedBackend({ script, speed: { wordMs: 0, sleep } });
  const backend: AgentBackend = {
    ...scripted,
    async open(seat) {
      const session = await scripted.open(seat);
      const prompt = session.prompt.bind(session);
      session.prompt = (turn, report) => {
        seen.push(turn.text);
        return prompt({ ...turn, reason: 'grant' }, report);
      };
      return session;
    },
  };
  return {
    backend,
    inject: 'injected',
    crash: /^exited with code 137$/,
    play: (...acts) => void plays.push(acts),
    async paused() {
      await arrived.promise;
      arrived = Promise.withResolvers();
    },
    release() {
      gate.resolve();
      gate = Promise.withResolvers();
    },
    seen: async () => seen,
    stop: async () => {},
  };
}

function stepsOf(act: Act): readonly Step[] {
  switch (act.do) {
    case 'write':
      return (act.text.match(/\s*\S/g) ?? []).map((text) => ({ do: 'say', text }));
    case 'say':
      return [{ do: 'say', text: act.text }, { do: 'flush' }];
    case 'pause':
      return [{ do: 'work', ms: PAUSE_MS }];
    case 'pass':
      return [{ do: 'end', ending: { how: 'passed' } }];
    case 'wait_for':
      return [
        { do: 'say', text: act.question },
        { do: 'flush' },
        { do: 'end', ending: { how: 'waiting', reason: 'answer' } },
      ];
    case 'hand_to':
      return [{ do: 'end', ending: { how: 'completed', handTo: act.agent } }];
    case 'hang':
      return [{ do: 'hang' }];
    case 'crash':
      return [{ do: 'crash' }];
    case 'ask':
      throw new Error('impossible: scripts ask for no permission');
  }
}

const PAUSE_MS = 1_000_000;
