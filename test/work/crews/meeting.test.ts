import { spawnSync } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Report } from '../../../src/agents/backends/backend.ts';
import { until } from '../reviews/stage.ts';
import { CHANNEL, finished, git, opened, playedBy, repository, stage, stageOf, ticketText } from './stage.ts';
import type { Work } from './played.ts';

/** A turn of a meeting: its speaker, the ticket in whose thread it is, and its prompt. */
type Turn = { readonly speaker: 'other' | 'own'; readonly ticket: string; readonly prompt: string };

/**
 * Plays two workers whose changes conflict. `meets` returns the text of a worker's turn in a meeting. The prompts of
 * steps that resolve a conflict are added to `resolved`.
 */
function colliding(meets: (turn: Turn) => string | Promise<string>, resolved: string[]): Work {
  const inside = new Set<string>();
  const both = Promise.withResolvers<void>();
  return async (folder, { text: prompt, channel }, _step, agent) => {
    const ticket = channel.split('/').at(-1) ?? '';
    if (prompt.includes('both sides meet here'))
      return meets({ speaker: agent.endsWith('.side') ? 'other' : 'own', ticket, prompt });
    if (prompt.includes('While you were speaking')) return 'I see.';
    if (prompt.includes('cannot be merged')) {
      resolved.push(prompt);
      const merged = git(folder, 'show', 'main:list.txt');
      spawnSync('git', ['-C', folder, 'merge', 'main']);
      writeFileSync(join(folder, 'list.txt'), `${merged}\n${ticket}\n`);
      git(folder, 'commit', '-qam', 'Merge main');
      return 'DONE';
    }
    if (inside.add(ticket).size === 2) both.resolve();
    await both.promise;
    writeFileSync(join(folder, 'list.txt'), `${ticket}\nfirst\n`);
    git(folder, 'commit', '-qam', `Add ${ticket}`);
    return 'DONE';
  };
}

const tickets = () => ({ 'c-1': ticketText('c-1', { text: 'The text of c-1.' }), 'c-2': ticketText('c-2') });
const AGREED = 'Both lines stay.\nAGREED: the merged line first';
const NOTE = /^\*\*[-\dT:]+Z\*\*\n\n([AB]) on (c-[12]) and ([AB]) on (c-[12]) agreed on their conflict: (.*)$/m;

/** Requests an edit of a file. Resolves with "go", or with the reason of the denial. */
async function edit({ gate }: Report): Promise<string> {
  const input = { file_path: 'list.txt', old_string: 'a', new_string: 'b' };
  const call = { id: 'e1', tool: 'Edit', input, definition: null, repeatable: false, detail: 'Edit', caution: null };
  await gate.step({ text: '', checkpoint: null });
  const asked = await gate.ask(call, new AbortController().signal);
  if (asked.verdict !== 'go') return asked.words;
  await gate.settled(call, { status: 'complete', output: 'done', code: null, durationMs: 1 });
  return 'go';
}

type Room = Awaited<ReturnType<typeof stage>>;

/** The posts in the thread of a ticket, from the announcement of the meeting on. */
function inThread({ posts }: Room, ticket: string): readonly string[] {
  const own = posts.filter((post) => post.startsWith(`${CHANNEL}/web/${ticket} `));
  const lines = own.map((post) => post.slice(`${CHANNEL}/web/${ticket} `.length));
  return lines.slice(lines.findIndex((line) => line.includes('meet here')));
}

describe('a meeting about a conflict', () => {
  test('gives the agreement to the worker as an instruction, and to both tickets as a note', async () => {
    const [turns, resolved]: [Turn[], string[]] = [[], []];
    const room = await stage(
      repository(tickets()),
      colliding((turn) => (turns.push(turn), turn.speaker === 'own' ? AGREED : 'My line must stay.'), resolved),
      { workers: 2 },
    );
    await room.command('/crew run');
    await finished(room, 2);
    expect(turns.map(({ speaker }) => speaker)).toEqual(['other', 'own']);
    const { ticket: later, prompt } = turns[0] ?? { ticket: '', prompt: '' };
    const earlier = later === 'c-1' ? 'c-2' : 'c-1';
    expect(prompt).toContain(`You speak for ${earlier}. This is turn 1 of 4.`);
    expect(prompt).toMatch(
      /diff --cc list\.txt\n@@@ .*\n\+\+<<<<<<< main\n \+c-\d\n\+\+=======\n\+ c-\d\n\+\+>>>>>>> c-\d\n/,
    );
    expect(prompt).toContain(`+${earlier}\n`);
    expect(turns[1]?.prompt).toContain('My line must stay.');
    expect(resolved).toHaveLength(1);
    expect(resolved[0]).toMatch(/Resolve the conflict so:\n<<<agreed (\w+)\nthe merged line first\n>>>agreed \1\n/);
    for (const id of ['c-1', 'c-2']) {
      const text = git(room.repo, 'show', `main:.tickets/${id}.md`);
      expect(text).toContain('status: closed');
      expect(NOTE.exec(text)?.slice(2)).toEqual([later, expect.any(String), earlier, 'the merged line first']);
      expect(text.match(/agreed on their conflict/g)).toHaveLength(1);
    }
    const [call = '', ...talk] = inThread(room, later);
    expect(call).toMatch(
      /^Conch: ⚔ [AB] on c-\d and [AB] on c-\d meet here about the conflict\. .*\n```\ndiff --cc list\.txt\n/,
    );
    expect(talk.slice(0, 3)).toEqual([
      expect.stringMatching(/^web-[AB]: My line must stay\.$/),
      expect.stringMatching(/^web-[AB]: Both lines stay\.\nAGREED: the merged line first$/),
      `Conch: 🤝 ${later}: the meeting agreed: the merged line first`,
    ]);
    expect(room.posts.filter((post) => post.startsWith(`${CHANNEL} `) && post.includes('meet here'))).toEqual([]);
    const thread = `${CHANNEL}/web/${later}`;
    const merged = room.app.crews.crewView(CHANNEL, 9)?.groups.find(({ state }) => state === 'merged')?.tickets ?? [];
    expect(merged.find(({ id }) => id === later)?.thread).toBe(thread);
    expect([room.app.crews.pastThread(thread), room.app.crews.pastThread(CHANNEL)]).toEqual([later, null]);
  });

  test('passes on messages that people write in its thread, and ends when a person ends it', async () => {
    const [turns, resolved]: [Turn[], string[]] = [[], []];
    const [writes, ends] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
    const room = await stage(
      repository(tickets()),
      colliding(async (turn) => {
        turns.push(turn);
        if (turn.speaker === 'own') return await ends.promise;
        await writes.promise;
        return 'My line must stay.';
      }, resolved),
      { workers: 2 },
    );
    await room.command('/crew run');
    await until(() => turns.length === 1);
    const later = turns[0]?.ticket ?? '';
    await room.write(`${CHANNEL}/web/${later}`, 'Sort the lines.');
    writes.resolve();
    await until(() => turns.length === 2);
    expect(turns[1]?.prompt).toMatch(/Sort the lines\..*\bI see\./s);
    const worker = room.app.crews.state('web')?.workers.find(({ ticket }) => ticket?.id === later);
    expect(await room.command(`/crew answer ${worker?.name} continue`)).toMatchObject({ ok: true });
    ends.resolve('Cut off.\nAGREED: too late');
    await finished(room, 2);
    expect(resolved[0]).not.toContain('Resolve the conflict so');
    expect(git(room.repo, 'show', `main:.tickets/${later}.md`)).not.toContain('agreed on their conflict');
    expect(inThread(room, later)).toContainEqual(
      `Conch: ⚔ The meeting about ${later} ended without an agreement: Ada ended it`,
    );
  });

  test('continues after a restart with the turn that was under way, and repeats no turn that was over', async () => {
    const path = join(mkdtempSync(join(tmpdir(), 'conch-crew-store-')), 'conch.db');
    const [turns, resolved]: [Turn[], string[]] = [[], []];
    const never = new Promise<never>(() => {});
    const repo = repository(tickets());
    const meets = (turn: Turn) => (turns.push(turn), turn.speaker === 'own' ? never : 'My line must stay.');
    const before = await stage(repo, colliding(meets, resolved), { workers: 2 }, path);
    await before.command('/crew run');
    await until(() => turns.length === 2);
    await before.stop();
    opened.length = 0;
    const after = await stage(
      repo,
      colliding((turn) => (turns.push(turn), AGREED), resolved),
      { workers: 2 },
      path,
    );
    await finished(after, 2);
    expect(turns.map(({ speaker }) => speaker)).toEqual(['other', 'own', 'own']);
    expect(turns[2]?.prompt).toContain('This is turn 2 of 4.');
    expect(resolved).toHaveLength(1);
    for (const id of ['c-1', 'c-2'])
      expect(git(repo, 'show', `main:.tickets/${id}.md`).match(/agreed on their conflict/g)).toHaveLength(1);
  });

  test('denies edits to the agent of the other side, and allows them to the worker', async () => {
    const heard: (readonly [agent: string, answer: string])[] = [];
    const work = colliding(({ speaker }) => (speaker === 'own' ? AGREED : 'My line must stay.'), []);
    const room = await stageOf({
      repo: repository(tickets()),
      crew: { workers: 2, tools: { allow: ['Edit'] } },
      backends: async (config) => {
        const playedFor = await playedBy(work)(config);
        return (agent) => {
          const backend = playedFor(agent);
          const open: typeof backend.open = async (seat) => {
            const session = await backend.open(seat);
            const prompt: typeof session.prompt = async (turn, report) => {
              if (turn.text.includes('both sides meet here')) heard.push([agent.id, await edit(report)]);
              return session.prompt(turn, report);
            };
            return { ...session, prompt };
          };
          return { ...backend, open };
        };
      },
    });
    await room.command('/crew run');
    await finished(room, 2);
    expect(heard).toEqual([
      [
        expect.stringMatching(/\.side$/),
        expect.stringContaining('an agent that speaks for a merged ticket in a meeting may not change files'),
      ],
      [expect.stringMatching(/^web-[ab]$/), 'go'],
    ]);
  });

  test('is not held when the configuration sets meetingTurns to 0', async () => {
    const resolved: string[] = [];
    const work = colliding(() => Promise.reject(new Error('nobody meets')), resolved);
    const room = await stage(repository(tickets()), work, { workers: 2, meetingTurns: 0 });
    await room.command('/crew run');
    await finished(room, 2);
    expect(resolved).toHaveLength(1);
    expect(room.posts.join('\n')).not.toContain('meet here');
  });
});
