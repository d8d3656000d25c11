import type { JSX } from 'preact';
import { CodeBlock } from '../conversation/code-block.tsx';
import { sendCommand } from '../sending.ts';
import { trustButtons } from '../../delivery/card.ts';
import { trustAnswers } from '../../../turns/text/words.ts';
import { agentOf, view } from '../state.ts';

/** Agents that are not started before somebody trusts the files in their folders, each with these and the two answers. */
export function TrustBar(): JSX.Element | null {
  const asked = view.value?.trust ?? [];
  if (asked.length === 0) return null;
  return (
    <div class="approvals">
      {asked.map((question) => {
        const { agent, id, folder, detail, shown } = question;
        const { name } = agentOf(agent);
        return (
          <section
            key={`${agent} ${id}`}
            class="approval"
            data-testid="trust"
            aria-label={`The folder of ${name} (${id})`}
          >
            <p>
              🔐 <strong>{name}</strong> is not started: files in its folder {folder} act before anybody is asked ({id})
            </p>
            <CodeBlock code={detail} language="" closed={true} />
            <p>{trustAnswers(question)}</p>
            <div role="group" aria-label="Your answer">
              <div class="actions answers">
                {trustButtons(question, name, view.value?.store ?? '').map(({ label, line, style, drawnFor }) => (
                  <button
                    key={line}
                    type="button"
                    data-testid={style === 'good' ? 'trust-folder' : 'leave-folder'}
                    title={line}
                    disabled={!shown}
                    onClick={(event) => event.detail < 2 && sendCommand(line, { drawnFor })}
                  >
                    {label}
                  </button>
                ))}
              </div>
            </div>
          </section>
        );
      })}
    </div>
  );
}
