import { CORE } from '../../src/turns/store/core.ts';
import { CHANNELS } from './channels.ts';
import { search } from './search.ts';
for (const channel of CHANNELS) {
  if (process.argv[3] && !channel.name.includes(process.argv[3])) continue;
  const t = Date.now();
  const r = search(CORE, channel, { depth: Math.min(channel.depth, Number(process.argv[2] ?? 99)), first: false });
  console.log(r.channel, r.states, r.transitions, r.diameter, r.closed, Date.now() - t, 'ms');
  for (const f of r.found) console.log(f.invariant, f.what, '\n   ', f.trace.map((x) => `${x.at - 43200000} ${JSON.stringify(x.command)}`).join('\n    '));
}
