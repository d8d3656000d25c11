import type { Json } from './state.ts';

/** An error answer of Discord: an HTTP status and an error code. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly status: number;
  readonly code: number;
  readonly errors: Json | null;

  constructor(status: number, code: number, message: string, errors: Json | null = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.errors = errors;
  }
}

/** The refusals that several routes give. */
export const refusals = {
  unauthorized: () => new Refusal(401, 0, '401: Unauthorized'),
  notFound: () => new Refusal(404, 0, '404: Not Found'),
  unknownChannel: () => new Refusal(404, 10_003, 'Unknown Channel'),
  unknownGuild: () => new Refusal(404, 10_004, 'Unknown Guild'),
  unknownMember: () => new Refusal(404, 10_007, 'Unknown Member'),
  unknownMessage: () => new Refusal(404, 10_008, 'Unknown Message'),
  unknownRole: () => new Refusal(404, 10_011, 'Unknown Role'),
  unknownUser: () => new Refusal(404, 10_013, 'Unknown User'),
  unknownEmoji: () => new Refusal(400, 10_014, 'Unknown Emoji'),
  unknownWebhook: () => new Refusal(404, 10_015, 'Unknown Webhook'),
  unknownInteraction: () => new Refusal(404, 10_062, 'Unknown interaction'),
  missingAccess: () => new Refusal(403, 50_001, 'Missing Access'),
  missingPermissions: () => new Refusal(403, 50_013, 'Missing Permissions'),
  notTheAuthor: () => new Refusal(403, 50_005, 'Cannot edit a message authored by another user'),
  empty: () => new Refusal(400, 50_006, 'Cannot send an empty message'),
  wrongChannelType: () => new Refusal(400, 50_024, 'Cannot execute action on this channel type'),
  invalidWebhookToken: () => new Refusal(401, 50_027, 'Invalid Webhook Token'),
  archived: () => new Refusal(400, 50_083, 'Thread is archived'),
  locked: () => new Refusal(403, 160_005, 'Thread is locked'),
  acknowledged: () => new Refusal(400, 40_060, 'Interaction has already been acknowledged.'),
  tooManyWebhooks: () => new Refusal(400, 30_007, 'Maximum number of webhooks reached (15)'),
  tooLarge: () => new Refusal(413, 40_005, 'Request entity too large'),
};

/** Returns the refusal of an invalid field; `path` is dotted: "embeds.0.description". */
export function invalid(path: string, code: string, message: string): Refusal {
  const errors: Json = {};
  let at = errors;
  for (const key of path.split('.')) {
    const next: Json = {};
    at[key] = next;
    at = next;
  }
  at['_errors'] = [{ code, message }];
  return new Refusal(400, 50_035, 'Invalid Form Body', errors);
}

export function tooLong(path: string, max: number): Refusal {
  return invalid(path, 'BASE_TYPE_MAX_LENGTH', `Must be ${max} or fewer in length.`);
}
