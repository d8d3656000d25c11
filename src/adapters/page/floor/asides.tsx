import type { JSX } from 'preact';
import { askedId } from '../../../turns/floor/seats.ts';
import { stopOf } from '../../delivery/card.ts';
import { toneOf } from '../avatar.tsx';
import { showOpen } from '../frame/attention.ts';
import { drawerOpen } from '../layout.ts';
import { sendCommand } from '../sending.ts';
import { agentOf, channel, view } from '../state.ts';

/** The background runs of this channel, with their state and buttons. */
export function Asides(): JSX.Element | null {
  const { asides = [] } = view.value ?? {};
  if (asides.length === 0) return null;
  return (
    <section class="block" aria-labelledby="asides-title">
      <h2 id="asides-title">Background runs</h2>
      <ul class="asides" data-testid="asides">
        {asides.map((aside) => (
          <AsideRow key={aside.agent} aside={aside} />
        ))}
      </ul>
    </section>
  );
}

type Aside = Parameters<typeof stopOf>[0];

function AsideRow({ aside }: { readonly aside: Aside }): JSX.Element {
  const { agent, question } = aside;
  return (
    <li class={toneOf(agent)} data-testid={`aside-${agent}`}>
      <p>
        <span class="speaker">{agentOf(agent).name}</span> {standsAt(aside)}
      </p>
      <div class="buttons">
        {question !== undefined && (
          <button type="button" class="small-button" onClick={() => showOpen(channel.value ?? '', askedId(question))}>
            Answer
          </button>
        )}
        <button
          type="button"
          class="small-button"
          title={`/run status ${agent}+`}
          onClick={() => {
            drawerOpen.value = false;
            sendCommand(`/run status ${agent}+`, { typed: true });
          }}
        >
          Status
        </button>
        {stopOf(aside, view.value?.store ?? '', (id) => agentOf(id).name).map(({ label, line, drawnFor }) => (
          <button
            key={line}
            type="button"
            class="small-button"
            title={line}
            aria-label={label}
            onClick={() => sendCommand(line, { drawnFor })}
          >
            {label.split(' ')[0]}
          </button>
        ))}
      </div>
    </li>
  );
}

function standsAt({ question, failed }: Aside): string {
  if (failed === true) return 'failed';
  if (question === undefined) return 'works';
  return `waits for an answer (${question.question})`;
}
