import { useSignalEffect } from '@preact/signals';
import type { JSX } from 'preact';
import { AuditView } from './audit/audit.tsx';
import { Announcer } from './frame/announcer.tsx';
import { ChannelList } from './frame/channel-list.tsx';
import { Composer } from './composer/composer.tsx';
import { Conversation } from './conversation/conversation.tsx';
import { ApprovalBar } from './floor/approval.tsx';
import { FloorBar } from './floor/floor-bar.tsx';
import { Help } from './frame/help.tsx';
import { auditOpen, drawerOpen } from './layout.ts';
import { Panel } from './floor/panel.tsx';
import { ask } from './sending.ts';
import { channel, channels, connection } from './state.ts';
import { TopBar } from './frame/top-bar.tsx';

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
      {!auditOpen.value && (
        <a class="skip-link" href="#composer">
          Go to the composer
        </a>
      )}
      <TopBar />
      {several && <ChannelList />}
      {auditOpen.value ? (
        <AuditView />
      ) : (
        <>
          <main class="middle">
            <FloorBar />
            <ApprovalBar />
            <Conversation />
            <Composer />
          </main>
          <div class="scrim" onClick={() => (drawerOpen.value = false)} />
          <Panel />
        </>
      )}
      <Help />
      <Announcer />
    </div>
  );
}
