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
import { channels } from './state.ts';
import { Toasts } from './toasts.tsx';
import { TopBar } from './top-bar.tsx';

/** The whole page. */
export function App(): JSX.Element {
  const several = channels.value.length > 1;
  return (
    <div class={`frame${several ? ' with-channels' : ''}${drawerOpen.value ? ' drawer-open' : ''}`}>
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
      <Toasts />
      <Help />
      <Announcer />
    </div>
  );
}
