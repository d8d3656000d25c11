import { useEffect, useRef } from 'preact/hooks';
import type { JSX } from 'preact';
import type { ChannelEntry } from '../../console/protocol.ts';
import { toneOf } from '../parts.tsx';
import { auditOpen, activity, channel, channels, nameOf, openQuestions } from '../state.ts';
import { ask } from '../sending.ts';
import { isUnfinished } from '../composer/unfinished.ts';

/** The channels: who speaks in each, what asks for a person, and what was said since it was last open. */
export function ChannelList(): JSX.Element {
  return (
    <nav class="channels" aria-label="Channels">
      <ul>
        {channels.value.map((entry) => (
          <Channel key={entry.id} entry={entry} />
        ))}
      </ul>
    </nav>
  );
}

function Channel({ entry }: { readonly entry: ChannelEntry }): JSX.Element {
  const { id, name, writable, holder } = entry;
  const isOpen = id === channel.value;
  const count = activity.value[id] ?? 0;
  const asks = openQuestions.value.some((open) => open.channel.id === id);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (isOpen) button.current?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, [isOpen]);
  return (
    <li>
      <button
        ref={button}
        type="button"
        class={`channel${asks ? ' asks' : ''}`}
        data-testid="channel"
        data-channel={id}
        aria-current={isOpen && !auditOpen.value ? 'page' : undefined}
        title={holder === null ? `#${name}` : `#${name}: ${nameOf(holder)} has the floor`}
        onClick={() => {
          auditOpen.value = false;
          ask({ type: 'open', channel: id });
        }}
      >
        <span class="channel-title cut">#{name}</span>
        {!writable && <span class="platform">{id.split(':', 1)[0]}</span>}
        <span class="channel-signs">
          {asks ? (
            <span class="asking">
              <span aria-hidden="true">✋</span>
              <span class="unseen">waits for an answer</span>
            </span>
          ) : (
            holder !== null && <span class={`dot ${toneOf(holder)}`} aria-hidden="true" />
          )}
          {!isOpen && isUnfinished(id) && (
            <span class="begun" title="Unsent draft">
              <span aria-hidden="true">✎</span>
              <span class="unseen">unsent draft</span>
            </span>
          )}
          {!isOpen && count > 0 && <span class="count">{count > 99 ? '99+' : count}</span>}
        </span>
      </button>
    </li>
  );
}
