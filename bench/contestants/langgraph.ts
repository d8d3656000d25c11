import { Annotation, START, StateGraph } from '@langchain/langgraph';
import { SqliteSaver } from '@langchain/langgraph-checkpoint-sqlite';
import { AGENTS, SAID } from '../floors.ts';
import { Meter } from '../steady.ts';
import type { Measured, Span } from '../steady.ts';

/** The step limit of one graph run. No measurement here reaches it. */
const MOST_STEPS = 1_000_000_000;

/**
 * LangGraph.js: each agent is a node that says its text and hands over to the next, in one thread for each channel. The
 * checkpoint of a step is durable before the next (`sync`, and SQLite syncs each commit); it has no group commit.
 */
export async function handOvers(path: string, channels: number, span: Span): Promise<Measured> {
  const meter = new Meter(span);
  const saver = SqliteSaver.fromConnString(path);
  saver.db.pragma('journal_mode = WAL');
  saver.db.pragma('synchronous = FULL');
  const Floor = Annotation.Root({ epoch: Annotation<number>, said: Annotation<string>, holder: Annotation<string> });
  const goesOn = { value: true };
  const begunAt = new Map<string, number>();
  const graph = new StateGraph(Floor)
    .addNode('pm', turnOf('pm'))
    .addNode('dev', turnOf('dev'))
    .addNode('qa', turnOf('qa'))
    .addEdge(START, 'pm')
    .addConditionalEdges('pm', next('dev'), ['dev', '__end__'])
    .addConditionalEdges('dev', next('qa'), ['qa', '__end__'])
    .addConditionalEdges('qa', next('pm'), ['pm', '__end__'])
    .compile({ checkpointer: saver });
  await Promise.all(
    Array.from({ length: channels }, (_, index) =>
      graph.invoke(
        { epoch: 0, said: '', holder: AGENTS[0] ?? '' },
        { configurable: { thread_id: `${index}` }, recursionLimit: MOST_STEPS, durability: 'sync' },
      ),
    ),
  );
  saver.db.close();
  return meter.result;

  function turnOf(agent: string) {
    return (floor: typeof Floor.State, config: { readonly configurable?: { readonly thread_id?: unknown } }) => {
      const thread = String(config.configurable?.thread_id);
      const begun = begunAt.get(thread);
      if (begun !== undefined) goesOn.value = meter.did(begun) && goesOn.value;
      begunAt.set(thread, performance.now());
      return { epoch: floor.epoch + 1, said: SAID, holder: agent };
    };
  }

  function next<Name extends string>(agent: Name) {
    return (): Name | '__end__' => (goesOn.value ? agent : '__end__');
  }
}
