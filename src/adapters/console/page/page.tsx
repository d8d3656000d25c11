import { useSignalEffect } from '@preact/signals';
import type { JSX } from 'preact';
import { Announcer } from './announcer.tsx';
import { ChannelList } from './channel-list.tsx';
import { Composer } from './composer.tsx';
import { Conversation } from './conversation.tsx';
import { ApprovalBar } from './approval.tsx';
import { FloorBar } from './floor-bar.tsx';
import { Help } from './help.tsx';
import { drawerOpen } from './layout.ts';
import { Panel } from './panel.tsx';
import { ask } from './sending.ts';
import { channel, channels, connection } from './state.ts';
import { TopBar } from './top-bar.tsx';

/** The whole page. */
export function Page(): JSX.Element {
  const several = channels.value.length > 1;
  const isStale = connection.value === 'lost';
  useSignalEffect(() => {
    const isGone = channels.value.length > 0 && channels.value.every(({ id }) => id !== channel.peek());
    if (isGone) ask({ type: 'open', channel: null });
  });
  return (
    <div
      class={`frame${several ? ' with-channels' : ''}${drawerOpen.value ? ' drawer-open' : ''}${isStale ? ' is-stale' : ''}`}
    >
      <a class="skip-link" href="#composer">
        Go to the composer
      </a>
      <TopBar />
      {several && <ChannelList />}
      <main class="middle">
        <FloorBar />
        <ApprovalBar />
        <Conversation />
        <Composer />
      </main>
      <div class="scrim" onClick={() => (drawerOpen.value = false)} />
      <Panel />
      <Help />
      <Announcer />
    </div>
  );
}
