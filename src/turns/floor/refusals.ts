/** Each refusal with its sentence for people. */
export const REFUSALS = {
  duplicate: () => 'Nothing changed: that message was received before.',
  'not-holder': (agent) => `${agent} does not hold the floor: /floor status shows who does.`,
  'stale-epoch': () => 'That turn is over: /floor status shows whose turn it is.',
  'not-waiting': (agent) => `${agent} is not waiting: /floor status shows its state.`,
  'asks-back': (agent) => `Not possible now: ${agent} waits for your answer.`,
  'asks-too-deep': () => 'Not possible now: too many agents wait for one another’s answers.',
  'not-seated': (agent) =>
    `${agent} has no seat in this channel: add it to the channel's "agents" in turnConfig.json, unless a crew seats it.`,
  'not-queued': (agent, name) => `${agent} is not in the queue. To add it: /floor add${name}.`,
  offline: (agent, name) => `${agent} is offline. To start it: /agent restart${name}.`,
  disabled: (agent, name) => `${agent} is disabled. To enable it: /agent enable${name}.`,
  already: () => 'Nothing changed: the command asks for what is already the case.',
  'still-stopping': (agent) => `${agent} is still stopping: try again in a moment.`,
  'nothing-to-stop': () => 'Nobody holds the floor, so there is no turn to stop, skip or extend.',
  'nothing-to-resume': () => 'Nothing is paused here. To start the agents: write a message, or /floor start.',
  'task-open': () => 'An open review or ticket asks for the turns here. What it waits for: /review status or /crew ps.',
  'no-facilitator': () => 'This channel has no facilitator: set "facilitator" in turnConfig.json.',
  'nothing-due': () => 'Nothing changed: no deadline has passed yet.',
  paused: () => 'The floor is paused. To continue: /floor resume.',
  'catching-up': () => 'Conch is still reading the messages that it missed here: try again in a moment.',
  'nobody-available': () => 'No agents are available in this channel: /agent list shows why.',
  'not-asked': (agent) => `${agent} was not asked who is next. To give a turn: /floor grant <agent>.`,
  'unknown-message': () => 'This channel has no such message: copy the id from the message.',
  'needs-decision': (agent) => `${agent} waits for approval. To see the request: /allow.`,
  'stale-question': () => 'That request is closed: /run approvals lists the open ones.',
  'not-shown': () => 'Not yet: the channel does not show the whole request. Try again in a moment.',
  'bad-queue': () => 'Name each agent of the queue at most once: /queue shows them.',
  'day-limit': () => 'Today’s budget is used up. To continue: /floor resume.',
} as const satisfies Readonly<Record<string, (agent: string, argument: string) => string>>;

/** The reason for a refused command. */
export type Refusal = keyof typeof REFUSALS;

/** The sentence for a refusal, for people. `agent`: the name of the agent in the command. */
export function refusalText(refusal: Refusal, context: { readonly agent?: string }): string {
  const { agent } = context;
  return REFUSALS[refusal](agent ?? 'that agent', agent === undefined ? ' <agent>' : ` ${argument(agent)}`);
}

function argument(name: string): string {
  return /\s/.test(name) ? `"${name}"` : name;
}
