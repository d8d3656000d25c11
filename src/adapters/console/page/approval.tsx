import type { JSX } from 'preact';
import { visible } from '../../../turns/visible.ts';
import { command } from './sending.ts';
import { agentOf, view } from './state.ts';

const ANSWERS = [
  { choice: 'allow_once', line: '/allow once', label: 'Allow once' },
  { choice: 'allow_always', line: '/allow always', label: 'Allow always' },
  { choice: 'reject_once', line: '/reject', label: 'Reject' },
] as const;

/** What the holder asks a yes for, with the answers that its protocol takes. Nothing when it asks for none. */
export function ApprovalBar(): JSX.Element | null {
  const holder = view.value?.holder ?? null;
  const approval = holder?.approval ?? null;
  if (holder === null || approval === null) return null;
  const offered = ANSWERS.filter(({ choice }) => approval.choices.includes(choice));
  return (
    <section class="approval" data-testid="approval" role="alertdialog" aria-label="A request for permission">
      <p>
        <strong>{agentOf(holder.agent).name}</strong> asks: {visible(approval.title)}
      </p>
      {approval.detail !== '' && <pre>{visible(approval.detail)}</pre>}
      <div class="actions" role="group" aria-label="Your answer">
        {offered.map(({ choice, line, label }) => (
          <button
            type="button"
            key={choice}
            data-testid={choice}
            onClick={() => command(line, { epoch: holder.epoch })}
          >
            {label}
          </button>
        ))}
      </div>
    </section>
  );
}
