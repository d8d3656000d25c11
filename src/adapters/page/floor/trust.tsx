import { useRef } from 'preact/hooks';
import type { JSX } from 'preact';
import { askedId } from '../../../turns/floor/seats.ts';
import type { TrustQuestion } from '../../../turns/floor/floor.ts';
import { CodeBlock } from '../conversation/code-block.tsx';
import { useFocusWhenWanted } from '../frame/attention.ts';
import { sendCommand } from '../sending.ts';
import { trustButtons } from '../../delivery/card.ts';
import { trustAnswers } from '../../../turns/text/words.ts';
import { agentOf, view } from '../state.ts';

/** An agent that is not started before somebody trusts the files in its folder, with these and the two answers. */
export function Trust({ question }: { readonly question: TrustQuestion }): JSX.Element {
  const { agent, id, folder, detail, shown } = question;
  const { name } = agentOf(agent);
  const box = useRef<HTMLElement>(null);
  useFocusWhenWanted(askedId({ agent, id }), box);
  return (
    <section
      ref={box}
      class="approval"
      data-asked={askedId({ agent, id })}
      data-testid="trust"
      aria-label={`The folder of ${name} (${id})`}
    >
      <p class="asked-title">
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
              data-no={style !== 'good' || undefined}
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
}
