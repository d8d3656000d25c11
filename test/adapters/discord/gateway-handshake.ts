import { GatewayIntentBits } from 'discord.js';
import { z } from 'zod';
import type { Session } from './gateway-session.ts';
import { wireApplication } from './state-wire-guild.ts';
import { wireUser } from './state-wire.ts';
import type { World } from './state.ts';

export const payloads = z.looseObject({ op: z.int(), d: z.unknown().optional() });
export const identifyBody = z.looseObject({
  token: z.string(),
  intents: z.int(),
  shard: z.tuple([z.int(), z.int()]).optional(),
});
export const resumeBody = z.looseObject({ token: z.string(), session_id: z.string(), seq: z.int() });
export const membersBody = z.looseObject({ guild_id: z.string(), nonce: z.string().optional() });

const ALL_INTENTS = Object.values(GatewayIntentBits).reduce<number>(
  (all, bit) => (typeof bit === 'number' ? all | bit : all),
  0,
);

/** Returns the close code for a client that Discord refuses; `null`: accepted. */
export function turnedAway(world: World, asked: z.output<typeof identifyBody>): number | null {
  const { messageContent, membersIntent } = world.options;
  const { token, intents, shard = [0, 1] } = asked;
  const closed =
    GatewayIntentBits.GuildPresences |
    (messageContent ? 0 : GatewayIntentBits.MessageContent) |
    (membersIntent ? 0 : GatewayIntentBits.GuildMembers);
  if (token.replace(/^Bot /u, '') !== world.token) return 4004;
  if (shard[0] >= shard[1]) return 4010;
  if ((intents & ~ALL_INTENTS) !== 0) return 4013;
  return (intents & closed) === 0 ? null : 4014;
}

/** Returns the payload of READY. */
export function readyOf(world: World, session: Session, shard: readonly [number, number]): unknown {
  const { id, flags } = wireApplication(world);
  const guilds = [...world.guilds.values()].filter(({ joined }) => joined);
  return {
    v: 10,
    user: { ...wireUser(world.bot), email: null, mfa_enabled: true, verified: true },
    guilds: guilds.map((guild) => ({ id: guild.id, unavailable: true })),
    session_id: session.id,
    resume_gateway_url: `${world.origin.replace('http:', 'ws:')}/resume`,
    shard,
    application: { id, flags },
    session_type: 'normal',
    user_settings: {},
    relationships: [],
    private_channels: [],
    presences: [],
    guild_join_requests: [],
    _trace: [],
  };
}

/** Parses JSON; `null` for invalid JSON. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
