import type { JSX } from 'preact';
import { Avatar, Button, toneOf } from '../parts.tsx';
import { RichText } from './rich-text.tsx';
import { discard, sendWords, unsent } from '../sending.ts';
import type { Unsent } from '../sending.ts';
import { agentOf, channel, connection, drafts, holder, messages, view } from '../state.ts';

/** What stands after the last message: what is on its way, what is being written. */
export function Afterwards(): JSX.Element {
  return (
    <>
      {unsent.value
        .filter(({ key, channel: where }) => where === channel.value && messages.value.every((one) => one.key !== key))
        .map((message) => (
          <OnItsWay key={message.key} message={message} />
        ))}
      <Drafts />
    </>
  );
}

function OnItsWay({ message }: { readonly message: Unsent }): JSX.Element {
  const { key, text, replyTo, refusal } = message;
  const again = (): void => {
    discard(key);
    sendWords(text, replyTo);
  };
  return (
    <div class="message is-own tone-person on-its-way" data-testid="unsent">
      <div class="message-body">
        <div class="text">
          <RichText text={text} />
        </div>
        {refusal === null ? (
          <p class="faint">{connection.value === 'open' ? 'Sending…' : 'Will be sent when Conch is back'}</p>
        ) : (
          <p class="refusal">
            {refusal}{' '}
            <Button kind="link" onClick={again}>
              Try again
            </Button>{' '}
            <Button kind="link" onClick={() => discard(key)}>
              Discard
            </Button>
          </p>
        )}
      </div>
    </div>
  );
}

/** What the holder is writing; when nothing of it can be seen yet, that it works. */
function Drafts(): JSX.Element | null {
  const newest = view.value?.epoch ?? 0;
  const shown = [...drafts.value.values()].filter(
    (draft) => draft.text !== null && draft.text !== '' && draft.epoch >= newest - 1,
  );
  if (shown.length === 0)
    return holder.value?.status === 'ACTIVE' ? <Writing agent={holder.value.agent} text="" /> : null;
  return (
    <>
      {shown.map((draft) => (
        <Writing key={draft.agent} agent={draft.agent} text={draft.text ?? ''} />
      ))}
    </>
  );
}

function Writing(props: { readonly agent: string; readonly text: string }): JSX.Element {
  const agent = agentOf(props.agent);
  return (
    <div class={`message is-agent is-draft ${toneOf(agent.id)}`} data-testid="draft" data-speaker={agent.id}>
      <Avatar {...agent} />
      <div class="message-body">
        <div class="message-head">
          <span class="speaker">{agent.name}</span>
          <span class="faint">{props.text === '' ? 'is thinking' : 'is speaking'}</span>
        </div>
        <div class="text">
          {props.text === '' ? (
            <span class="dots" aria-hidden="true">
              <i />
              <i />
              <i />
            </span>
          ) : (
            <RichText text={props.text} />
          )}
        </div>
      </div>
    </div>
  );
}
