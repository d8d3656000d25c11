import { useState } from 'preact/hooks';
import type { JSX } from 'preact';
import { visible } from '../../../lib/visible.ts';
import type { OpenApproval, RememberedYes } from '../../../turns/tool-calls.ts';
import { askedId } from '../../../turns/floor/seats.ts';
import { showOpen } from '../frame/attention.tsx';
import { exactTime, now, timeOfDay } from '../now.ts';
import { pressButton } from '../sending.ts';
import { agentOf, channels, connection } from '../state.ts';
import { personName, standing } from './calls.ts';

/** More of them stand folded above the calls. */
const MOST_UNFOLDED = 3;

/** What is asked now, and every yes that is remembered. */
export function Standing(): JSX.Element | null {
  if (standing.value === null) return null;
  const { asked, remembered } = standing.value;
  return (
    <>
      {asked.length > 0 && (
        <section class="standing" aria-labelledby="asked-title">
          <h3 id="asked-title">Asked now</h3>
          <ul data-testid="asked">
            {asked.map((open) => (
              <Asked key={`${open.channel} ${open.agent} ${open.askedAt}`} open={open} />
            ))}
          </ul>
        </section>
      )}
      <details class="standing" open={remembered.length <= MOST_UNFOLDED}>
        <summary>
          <h3>Allowed for always{remembered.length > 0 && ` · ${remembered.length}`}</h3>
        </summary>
        {remembered.length === 0 ? (
          <p class="faint">Nothing is remembered: every yes was for once.</p>
        ) : (
          <ul data-testid="remembered">
            {remembered.map((yes) => (
              <Remembered key={`${yes.channel} ${yes.revoke}`} yes={yes} />
            ))}
          </ul>
        )}
      </details>
    </>
  );
}

function placeOf({ agent, channel }: { readonly agent: string; readonly channel: string }): string {
  return `${agentOf(agent).name} in #${channels.value.find(({ id }) => id === channel)?.name ?? channel}`;
}

function Asked({ open }: { readonly open: OpenApproval }): JSX.Element {
  const { channel, tool, askedAt, until, question } = open;
  return (
    <li>
      <p>
        <strong>{placeOf(open)}</strong> asks for approval: <code>{visible(tool)}</code>
        <span class="faint">
          {' '}
          since {timeOfDay(askedAt)}
          {until !== null && `, until ${timeOfDay(until)}`}
        </span>
      </p>
      {question !== null && (
        <button type="button" class="small-button" onClick={() => showOpen(channel, askedId({ question }))}>
          Show
        </button>
      )}
    </li>
  );
}

function Remembered({ yes }: { readonly yes: RememberedYes }): JSX.Element {
  const { channel, rule, by, at, until, uses, usedAt, revoke } = yes;
  const [isSure, setSure] = useState(false);
  const isOver = until <= now.value;
  return (
    <li class={isOver ? 'is-over' : ''}>
      <p>
        <strong>{placeOf(yes)}</strong>: <code>{visible(rule)}</code>
        <span class="faint">
          {' '}
          by {visible(personName(by))}, {exactTime(at)} · {isOver ? 'over since' : 'until'} {exactTime(until)} ·{' '}
          {uses === 0 || usedAt === null
            ? 'not used yet'
            : `used ${uses === 1 ? 'once' : `${uses} times`}, last ${exactTime(usedAt)}`}
        </span>
      </p>
      {isSure ? (
        <div class="actions" role="group" aria-label={`Take back ${rule}?`}>
          <button
            type="button"
            class="small-button stop"
            data-testid="revoke-sure"
            disabled={connection.value !== 'open'}
            onClick={() => pressButton(revoke, { channel })}
          >
            Take it back
          </button>
          <button type="button" class="small-button" onClick={() => setSure(false)}>
            Keep
          </button>
        </div>
      ) : (
        <button
          type="button"
          class="small-button"
          data-testid="revoke"
          aria-label={`Revoke ${rule}`}
          title={revoke}
          onClick={() => setSure(true)}
        >
          Revoke
        </button>
      )}
    </li>
  );
}
