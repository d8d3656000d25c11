import type { JSX } from 'preact';
import { ask } from './sending.ts';
import { activity, channel, channels } from './state.ts';

/** The channels, with what was said in each since it was last open. */
export function ChannelList(): JSX.Element {
  return (
    <nav class="channels" aria-label="Channels">
      <ul>
        {channels.value.map(({ id, name, writable }) => (
          <li key={id}>
            <button
              type="button"
              class="channel"
              aria-current={id === channel.value ? 'page' : undefined}
              onClick={() => ask({ type: 'open', channel: id })}
            >
              <span class="channel-title">#{name}</span>
              {!writable && <span class="platform">{id.split(':', 1)[0]}</span>}
              <Count of={id === channel.value ? 0 : (activity.value[id] ?? 0)} />
            </button>
          </li>
        ))}
      </ul>
    </nav>
  );
}

function Count(props: { readonly of: number }): JSX.Element | null {
  if (props.of === 0) return null;
  return <span class="count">{props.of > 99 ? '99+' : props.of}</span>;
}
