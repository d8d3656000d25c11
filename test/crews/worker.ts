import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { performStep, sceneOf } from './acts.ts';

/** A scripted worker as a program: reads a prompt as JSON, changes its folder, and answers in JSON. */
const { text: prompt } = z.object({ text: z.string() }).parse(JSON.parse(readFileSync(0, 'utf8')));
const { stepMs, ...scene } = sceneOf(prompt);
if (stepMs > 0) await pause(stepMs);
const act = performStep(scene);
switch (act.do) {
  case 'say':
    answer({ text: act.text });
    break;
  case 'ask':
    answer({ wait_for: act.question });
    break;
  case 'fail':
    process.stderr.write(`${act.why}\n`);
    process.exit(1);
    break;
  case 'hang':
    await pause(600_000);
}

function answer(words: object): never {
  process.stdout.write(`${JSON.stringify(words)}\n`);
  process.exit(0);
}
