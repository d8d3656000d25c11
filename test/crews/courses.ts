/** The behaviour of a scripted worker, and the expected facts of its ticket. */
export type Course = {
  readonly does: string;
  /** By label (see `labelOf`): how often the ticket has such facts, whatever else happens to it. */
  readonly expected: Readonly<Record<string, number>>;
};

/** The courses of scripted workers, by their names in scripts. Every course ends with a merge. */
export const COURSES = {
  works: { does: 'does the ticket and says DONE', expected: { merged: 1 } },
  prose: { does: 'writes "I am DONE soon", and DONE in a code block', expected: { 'stepAsked step': 1, merged: 1 } },
  quotes: { does: 'quotes DONE', expected: { 'stepAsked step': 1, merged: 1 } },
  'never commits': { does: 'says DONE and never commits', expected: { 'stepAsked commit': 1, merged: 1 } },
  dies: { does: 'ends in its second step', expected: { errorCounted: 1, 'workerMoved stuck': 0, merged: 1 } },
  hangs: { does: 'hangs in its first step', expected: { sessionRenewed: 1, errorCounted: 0, merged: 1 } },
  unchanged: {
    does: 'says DONE without a change',
    expected: { 'stepAsked nothing': 1, 'waited nothing': 0, merged: 1 },
  },
  asks: { does: 'asks people a question, and works with the answer', expected: { 'stepAsked step': 0, merged: 1 } },
  limit: {
    does: 'meets a usage limit with a reset in 20 s',
    expected: { paused: 1, errorForgiven: 1, 'workerMoved stuck': 0, merged: 1 },
  },
  slow: { does: 'says DONE in step 20', expected: { 'stepAsked step': 19, 'waited unfinished': 0, merged: 1 } },
  endless: {
    does: 'does not say DONE in 20 steps',
    expected: { 'waited unfinished': 1, 'stepAsked step': 20, merged: 1 },
  },
  leaves: { does: 'leaves a process that holds a port', expected: { errorCounted: 0, 'tested red': 0, merged: 1 } },
  killed: { does: 'is reset by a person in the middle of its work', expected: { 'leaving killed': 1, merged: 1 } },
  vanishes: { does: 'deletes its own worktree', expected: { 'leaving lost': 1, merged: 1 } },
  meddles: { does: 'opens a closed ticket again', expected: { 'stepAsked step': 0, merged: 1 } },
} as const satisfies Readonly<Record<string, Course>>;

/** The name of a course. */
export type CourseName = keyof typeof COURSES;

/** Courses by ticket. A ticket without a course is done in one step. */
export type Script = Readonly<Record<string, CourseName>>;

/** The script of one crew: every ticket has another course. */
export const MISBEHAVIOUR: Script = {
  't-01': 'prose',
  't-02': 'never commits',
  't-03': 'asks',
  't-04': 'vanishes',
  't-05': 'dies',
  't-06': 'limit',
  't-07': 'unchanged',
  't-08': 'leaves',
  't-09': 'hangs',
  't-10': 'killed',
  't-11': 'endless',
  't-12': 'meddles',
};

/** The script for workers over ACP, which end their steps in other ways. */
export const MISBEHAVIOUR_OF_PEERS: Script = { ...MISBEHAVIOUR, 't-01': 'quotes', 't-11': 'slow' };

type Fact = { readonly type: string; readonly [field: string]: unknown };

/** The label of a fact: its type, with the field that tells how a ticket went. */
export function labelOf(fact: Fact): string {
  const part = { stepAsked: 'kind', waited: 'for', leaving: 'why', workerMoved: 'to', tested: 'verdict' }[fact.type];
  return part === undefined ? fact.type : `${fact.type} ${String(fact[part])}`;
}

/** Differences from the courses of a script, as sentences. `facts`: by ticket. */
export function wrongCourses(script: Script, facts: ReadonlyMap<string, readonly Fact[]>): readonly string[] {
  return Object.entries(script).flatMap(([ticket, name]) => {
    const labels = (facts.get(ticket) ?? []).map(labelOf);
    return Object.entries(COURSES[name].expected).flatMap(([label, times]) => {
      const seen = labels.filter((each) => each === label).length;
      return seen === times ? [] : [`${ticket} ${name}: ${label} ${seen} times instead of ${times}`];
    });
  });
}
