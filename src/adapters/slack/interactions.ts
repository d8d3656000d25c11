import { z } from 'zod';
import type { ChannelId } from '../../turns/floor/settings.ts';
import { floorAt } from './parse-message.ts';
import type { Spot } from './parse-message.ts';
import { NO_FLOOR, SETTINGS, answer, command, commandRefusal, lineOf } from './commands.ts';
import type { Ack, CommandPorts, Recipient } from './commands.ts';
import { SETTINGS_ACTION, readButtonValue } from './content.ts';
import { openPressed, openSettings, takeForm } from './forms.ts';

/** What clicks, forms and `/conch` are answered with. */
export type Interactions = {
  /** Does what a payload asks, if it is one of these; `false` for any other. Rejects only when Slack had better send it again. */
  take(body: unknown, ack: Ack): Promise<boolean>;
  /** Runs a command line that somebody wrote as a message, or Slack's own Stop. */
  typed(command: Typed): void;
  /** Tells somebody who spoke to the app where it has no floor what to do. */
  unplaced(user: string, at: Spot): void;
};

type Typed = { readonly user: string; readonly line: string; readonly at: Spot; readonly floor: ChannelId };

const clickSchema = z.looseObject({
  type: z.literal('block_actions'),
  user: z.looseObject({ id: z.string().min(1) }),
  trigger_id: z.string().min(1),
  response_url: z.url().nullish().catch(null),
  channel: z.looseObject({ id: z.string() }).nullish(),
  container: z
    .looseObject({
      channel_id: z.string().nullish(),
      message_ts: z.string().nullish(),
      thread_ts: z.string().nullish(),
    })
    .nullish(),
  message: z.looseObject({ ts: z.string().nullish(), thread_ts: z.string().nullish() }).nullish().catch(null),
  actions: z
    .array(
      z.looseObject({
        action_id: z.string(),
        value: z.string().nullish(),
        selected_option: z.looseObject({ value: z.string() }).nullish(),
      }),
    )
    .min(1),
});
type Click = z.output<typeof clickSchema>;

/** Answers everything that people do beside writing. */
export function createInteractions(ports: CommandPorts): Interactions {
  return {
    async take(body, ack) {
      const asked = slashSchema.safeParse(body);
      if (asked.success) {
        await slash(ports, asked.data, ack);
        return true;
      }
      const click = clickSchema.safeParse(body);
      if (click.success) {
        await clicked(ports, click.data, ack);
        return true;
      }
      return takeForm(ports, body, ack);
    },
    typed: ({ user, at, floor, line }) => void command(ports, { user, at, responseUrl: null }, { floor, line }),
    unplaced: (user, at) => void answer(ports, { user, at, responseUrl: null }, NO_FLOOR),
  };
}

async function clicked(ports: CommandPorts, click: Click, ack: Ack): Promise<void> {
  await ack();
  const [action] = click.actions;
  if (action === undefined || !action.action_id.startsWith('conch:')) return;
  if (!ports.deduplicator.claim(`trigger:${click.trigger_id}`)) return;
  const at = spotOf(click);
  if (at === null) return;
  const asker: Recipient = { user: click.user.id, at, responseUrl: click.response_url ?? null };
  const floor = floorAt(ports.queries, at);
  const meant = floor === null ? null : readButtonValue(action.value ?? action.selected_option?.value ?? '');
  if (floor !== null && action.action_id === SETTINGS_ACTION) {
    return openSettings(ports, { asker, floor, trigger: click.trigger_id });
  }
  if (floor === null || meant === null) return answer(ports, asker, OLD_BUTTON);
  const pressed = { asker, floor, trigger: click.trigger_id, meant };
  const { line, drawnFor, opens } = meant;
  const refusal = opens === undefined ? null : await commandRefusal(ports, click.user.id, { floor, line, drawnFor });
  if (refusal !== null) return answer(ports, asker, refusal);
  if (await openPressed(ports, pressed)) return;
  await command(ports, asker, { floor, line, drawnFor });
}

const OLD_BUTTON = { ok: false, text: 'This button is out of date. Use the newest card, or `/conch help`.' };

function spotOf(click: Click): Spot | null {
  const channel = click.container?.channel_id ?? click.channel?.id;
  if (channel === undefined) return null;
  const own = click.container?.message_ts ?? click.message?.ts;
  const thread = click.container?.thread_ts ?? click.message?.thread_ts ?? null;
  return { channel, thread: thread === own ? null : thread, broadcast: false };
}

/** What `/conch` sends. */
const slashSchema = z.looseObject({
  command: z.string(),
  text: z.string().default(''),
  user_id: z.string().min(1),
  channel_id: z.string().min(1),
  trigger_id: z.string().min(1),
  response_url: z.url().nullish().catch(null),
});

/** Answers `/conch …`: at once that it has arrived, then with what became of it. */
async function slash(ports: CommandPorts, sent: z.output<typeof slashSchema>, ack: Ack): Promise<void> {
  await ack();
  if (!ports.deduplicator.claim(`trigger:${sent.trigger_id}`)) return;
  const at: Spot = { channel: sent.channel_id, thread: null, broadcast: false };
  const asker: Recipient = { user: sent.user_id, at, responseUrl: sent.response_url ?? null };
  const floor = floorAt(ports.queries, at);
  if (floor === null) return answer(ports, asker, NO_FLOOR);
  const line = lineOf(sent.text);
  if (line !== SETTINGS) return command(ports, asker, { floor, line });
  await openSettings(ports, { asker, floor, trigger: sent.trigger_id });
}
