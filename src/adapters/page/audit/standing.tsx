import { useState } from 'preact/hooks';
import type { JSX } from 'preact';
import { visible } from '../../../lib/visible.ts';
import type { OpenApproval, RememberedYes } from '../../../turns/tool-calls.ts';
import { askedId } from '../../../turns/floor/seats.ts';
import { showOpen } from '../frame/attention.tsx';
import { exactTime, now, timeOfDay } from '../now.ts';
import { Button } from '../parts.tsx';
import { pressButton } from '../sending.ts';
import { channelNameOf, connection, nameOf } from '../state.ts';
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
          <h3 id="asked-title">Open requests</h3>
          <ul data-testid="asked">
            {asked.map((open) => (
              <Asked key={`${open.channel} ${open.agent} ${open.askedAt}`} open={open} />
            ))}
          </ul>
        </section>
      )}
      <details class="standing" open={remembered.length <= MOST_UNFOLDED}>
        <summary>
          <h3>Always-allow rules{remembered.length > 0 && ` · ${remembered.length}`}</h3>
        </summary>
        {remembered.length === 0 ? (
          <p class="faint">There are no always-allow rules.</p>
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
  return `${nameOf(agent)} in #${channelNameOf(channel)}`;
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
        <Button kind="small-button" onClick={() => showOpen(channel, askedId({ question }))}>
          Show
        </Button>
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
          by {visible(personName(by))}, {exactTime(at)} · {isOver ? 'expired' : 'until'} {exactTime(until)} ·{' '}
          {uses === 0 || usedAt === null
            ? 'not used yet'
            : `used ${uses === 1 ? 'once' : `${uses} times`}, last ${exactTime(usedAt)}`}
        </span>
      </p>
      {isSure ? (
        <div class="actions" role="group" aria-label={`Revoke ${rule}?`}>
          <Button
            kind="small-button stop"
            data-testid="revoke-sure"
            disabled={connection.value !== 'open'}
            onClick={() => pressButton(revoke, { channel })}
          >
            Revoke
          </Button>
          <Button kind="small-button" onClick={() => setSure(false)}>
            Keep
          </Button>
        </div>
      ) : (
        <Button
          kind="small-button"
          data-testid="revoke"
          aria-label={`Revoke ${rule}`}
          title={revoke}
          onClick={() => setSure(true)}
        >
          Revoke…
        </Button>
      )}
    </li>
  );
}
