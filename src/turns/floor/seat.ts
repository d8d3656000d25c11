/** The five states of a seat, as the owner's document names them. */
export const STATUSES = ['OFFLINE', 'IDLE', 'QUEUED', 'ACTIVE', 'WAITING'] as const;

/** One of the five states of a seat: an agent's place at one floor. */
export type Status = (typeof STATUSES)[number];

type Row = {
  readonly from: readonly Status[];
  readonly to: Status;
  readonly trigger: string;
  readonly action: string;
};

/**
 * Every transition that a seat may make: the owner's thirteen rows, then those that the owner's prose adds.
 * The README's table and diagram are generated from it, `evolve` enforces it, and logs carry its trigger names.
 */
export const TRANSITIONS = [
  { from: ['OFFLINE'], to: 'IDLE', trigger: 'AGENT_STARTED', action: 'register' },
  { from: ['IDLE'], to: 'QUEUED', trigger: 'ASSIGNED', action: "append to the channel's queue" },
  { from: ['IDLE'], to: 'OFFLINE', trigger: 'AGENT_STOPPED', action: 'deregister' },
  { from: ['QUEUED'], to: 'ACTIVE', trigger: 'TURN_GRANTED', action: 'becomes holder, agent notified' },
  { from: ['QUEUED'], to: 'IDLE', trigger: 'REMOVED', action: 'out of the queue' },
  { from: ['QUEUED'], to: 'OFFLINE', trigger: 'DISCONNECTED', action: 'out of the queue, log' },
  { from: ['ACTIVE'], to: 'QUEUED', trigger: 'TURN_COMPLETE', action: 'advance' },
  { from: ['ACTIVE'], to: 'QUEUED', trigger: 'TIMEOUT', action: 'force advance, log, announce' },
  { from: ['ACTIVE'], to: 'WAITING', trigger: 'WAIT_REQUESTED', action: 'pause the turn, start the wait timer' },
  { from: ['ACTIVE'], to: 'OFFLINE', trigger: 'CRASHED', action: 'advance, log the cause, announce' },
  { from: ['WAITING'], to: 'ACTIVE', trigger: 'WAIT_RESOLVED', action: 'resume the turn' },
  { from: ['WAITING'], to: 'QUEUED', trigger: 'WAIT_TIMEOUT', action: 'forfeit the turn, advance' },
  { from: ['WAITING'], to: 'OFFLINE', trigger: 'DISCONNECTED', action: 'remove, log, announce' },
  { from: ['ACTIVE'], to: 'IDLE', trigger: 'TURN_COMPLETE', action: 'alone in the channel: rest' },
  { from: ['IDLE'], to: 'QUEUED', trigger: 'RECALLED', action: 'the next human message came' },
  { from: ['ACTIVE'], to: 'QUEUED', trigger: 'SILENCE', action: 'auto-detected end, advance' },
  { from: ['ACTIVE', 'WAITING'], to: 'IDLE', trigger: 'REMOVED', action: 'end the turn, advance' },
  { from: ['ACTIVE'], to: 'WAITING', trigger: 'PREEMPTED', action: 'stop the generation, a human goes first' },
  { from: ['WAITING'], to: 'QUEUED', trigger: 'HUMAN_OVERRIDE', action: 'an operator gave the floor to another' },
  { from: ['WAITING'], to: 'ACTIVE', trigger: 'HUMAN_OVERRIDE', action: 'an operator resumed the turn' },
  { from: ['ACTIVE', 'WAITING'], to: 'QUEUED', trigger: 'SKIPPED', action: 'an operator ended the turn, advance' },
  { from: ['ACTIVE', 'WAITING'], to: 'QUEUED', trigger: 'STOPPED', action: 'stop: end the turn, close the exchange' },
  {
    from: ['IDLE', 'QUEUED', 'ACTIVE', 'WAITING'],
    to: 'OFFLINE',
    trigger: 'DISABLED',
    action: 'an operator disabled the agent',
  },
  { from: ['OFFLINE'], to: 'IDLE', trigger: 'ENABLED', action: 'an operator enabled the agent' },
] as const satisfies readonly Row[];

/** The name of what made a seat change its state. */
export type Trigger = (typeof TRANSITIONS)[number]['trigger'];

/** Whether the table lets a seat go from one state to another for this reason. */
export function isAllowed(from: Status, to: Status, trigger: Trigger): boolean {
  return ROWS.has(`${from}>${to}:${trigger}`);
}

const ROWS: ReadonlySet<string> = new Set(
  TRANSITIONS.flatMap((row) => row.from.map((from) => `${from}>${row.to}:${row.trigger}`)),
);
