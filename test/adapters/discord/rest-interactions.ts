import { z } from 'zod';
import { checked, checkedMessage, isEmpty, messageBody, store } from './rest-body.ts';
import type { Body } from './rest-body.ts';
import { invalid, refusals } from './rest-errors.ts';
import { changeOf } from './rest-messages.ts';
import { NOTHING, ok, param } from './rest-route.ts';
import type { Call, Reply, Route } from './rest-route.ts';
import {
  amend,
  defer,
  followUp,
  isExpired,
  isTooLate,
  offer,
  reply,
  updateSource,
  withdraw,
} from './state-interactions.ts';
import type { Interaction } from './state-interactions.ts';
import type { Draft } from './state-messages.ts';
import { wireMessage } from './state-wire.ts';
import type { Message, World } from './state.ts';

const ANSWERS = '/webhooks/{application}/:token';

const callback = z.looseObject({ type: z.int(), data: z.unknown().optional() });
const proposals = z.looseObject({
  choices: z
    .array(z.looseObject({ name: z.string().min(1).max(100), value: z.union([z.string().max(100), z.number()]) }))
    .max(25),
});

/** The routes for answers to interactions. `{application}` in a pattern stands for the application id. */
export function interactionRoutes(interactions: ReadonlyMap<string, Interaction>): readonly Route[] {
  const at = (call: Call) => byToken(interactions, param(call, 'token'));
  return [
    {
      method: 'POST',
      pattern: '/interactions/:interaction/:token/callback',
      open: true,
      act: (call) => answer(call, interactions),
    },
    { method: 'POST', pattern: ANSWERS, open: true, act: (call) => more(call, at(call)) },
    {
      method: 'GET',
      pattern: `${ANSWERS}/messages/:message`,
      open: true,
      act: (call) => show(call.world, message(call, at(call))),
    },
    { method: 'PATCH', pattern: `${ANSWERS}/messages/:message`, open: true, act: (call) => change(call, at(call)) },
    {
      method: 'DELETE',
      pattern: `${ANSWERS}/messages/:message`,
      open: true,
      act: (call) => {
        withdraw(call.world, at(call), message(call, at(call)));
        return NOTHING;
      },
    },
  ];
}

function answer(call: Call, interactions: ReadonlyMap<string, Interaction>): Reply {
  const { world, body, query } = call;
  const interaction = interactions.get(param(call, 'interaction'));
  if (interaction === undefined || interaction.token !== param(call, 'token')) throw refusals.unknownInteraction();
  if (interaction.ack !== null) throw refusals.acknowledged();
  if (isTooLate(interaction)) throw refusals.unknownInteraction();
  const { type, data } = checked(callback, body.json);
  const inner: Body = { json: data ?? {}, files: body.files };
  act(world, interaction, { type, body: inner });
  if (query.get('with_response') !== 'true') return NOTHING;
  const { original } = interaction;
  return ok({
    interaction: {
      id: interaction.id,
      type: interaction.source === null ? 2 : 3,
      ...(original === null ? {} : { response_message_id: original.id }),
      response_message_loading: type === 5,
      response_message_ephemeral: interaction.answer.ephemeral,
    },
    ...(original === null ? {} : { resource: { type, message: wired(world, original) } }),
  });
}

function act(world: World, interaction: Interaction, said: { readonly type: number; readonly body: Body }): void {
  const { type, body } = said;
  if (type === 4) {
    reply(world, interaction, draftOf(world, interaction, body));
  } else if (type === 5 || (type === 6 && interaction.source !== null)) {
    defer(world, interaction, { type, flags: checked(messageBody, body.json).flags ?? 0 });
  } else if (type === 7 && interaction.source !== null) {
    updateSource(world, interaction, changeOf(world, interaction.source, body));
  } else if (type === 8) {
    offer(interaction, type, { choices: checked(proposals, body.json).choices });
  } else if (type === 9) {
    offer(interaction, type, { modal: modalIn(body) });
  } else {
    throw invalid('type', 'BASE_TYPE_CHOICES', 'Value is not one of the types for this interaction.');
  }
}

const textInput = z.looseObject({
  type: z.literal(4),
  custom_id: z.string().min(1).max(100),
  style: z.union([z.literal(1), z.literal(2)]),
  min_length: z.int().min(0).max(4000).optional(),
  max_length: z.int().min(1).max(4000).optional(),
  value: z.string().max(4000).optional(),
  required: z.boolean().optional(),
});
const select = z
  .looseObject({
    type: z.literal(3),
    custom_id: z.string().min(1).max(100),
    required: z.boolean().optional(),
    min_values: z.int().min(0).max(25),
    max_values: z.int().min(1).max(25),
    options: z
      .array(z.looseObject({ value: z.string().min(1).max(100), label: z.string().min(1).max(100) }))
      .min(1)
      .max(25),
  })
  .refine(({ min_values: least, required = true }) => required === least > 0, 'Optional selects take none')
  .refine(({ min_values: least, max_values: most, options }) => least <= most && most <= options.length)
  .refine(({ options }) => new Set(options.map(({ value }) => value)).size === options.length, 'Values are unique');
const modal = z.looseObject({
  custom_id: z.string().min(1).max(100),
  title: z.string().min(1).max(45),
  components: z
    .array(
      z.union([
        z.looseObject({ type: z.literal(1), components: z.array(textInput).length(1) }),
        z.looseObject({
          type: z.literal(18),
          label: z.string().min(1).max(45),
          description: z.string().min(1).max(100).optional(),
          component: z.union([textInput, select]),
        }),
      ]),
    )
    .min(1)
    .max(5),
});

/** Parses a form and checks Discord's limits. */
function modalIn(body: Body): z.output<typeof modal> {
  const read = checked(modal, body.json);
  const ids = read.components.flatMap((part) =>
    'component' in part ? [part.component] : part.components,
  ) as readonly { readonly custom_id: string }[];
  if (new Set(ids.map(({ custom_id: id }) => id)).size !== ids.length)
    throw invalid('components', 'COMPONENT_CUSTOM_ID_DUPLICATED', 'Component custom id cannot be duplicated');
  return read;
}

function more(call: Call, interaction: Interaction): Reply {
  const { world, body } = call;
  return show(world, followUp(world, interaction, draftOf(world, interaction, body)));
}

function change(call: Call, interaction: Interaction): Reply {
  const { world, body } = call;
  const one = message(call, interaction);
  amend(world, interaction, one, changeOf(world, one, body));
  return show(world, one);
}

function draftOf(world: World, interaction: Interaction, body: Body): Omit<Draft, 'author'> {
  const wanted = checkedMessage(body);
  if (isEmpty(wanted, body.files.length)) throw refusals.empty();
  return {
    text: wanted.text ?? '',
    embeds: wanted.embeds ?? [],
    components: wanted.components ?? [],
    attachments: store(world, interaction.channel.id, body.files),
    allowed: wanted.allowed_mentions ?? undefined,
    flags: wanted.flags ?? 0,
  };
}

function message(call: Call, interaction: Interaction): Message {
  const id = param(call, 'message');
  const one =
    id === '@original' || id === interaction.original?.id ? interaction.original : interaction.followUps.get(id);
  if (one == null) throw refusals.unknownMessage();
  return one;
}

function byToken(interactions: ReadonlyMap<string, Interaction>, token: string): Interaction {
  const interaction = [...interactions.values()].find((one) => one.token === token);
  if (interaction === undefined || isExpired(interaction)) throw refusals.invalidWebhookToken();
  if (interaction.ack === null) throw refusals.unknownWebhook();
  return interaction;
}

function show(world: World, one: Message): Reply {
  return ok(wired(world, one));
}

function wired(world: World, one: Message): unknown {
  return wireMessage(world, one, { content: true });
}
