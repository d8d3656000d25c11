import type { JSX } from 'preact';
import type { ReviewView } from '../../../turns/view.ts';
import { reviewButtons } from '../../delivery/card.ts';
import { clockText, now } from '../now.ts';
import { Block, Button, LineButton, toneOf } from '../parts.tsx';
import { sendCommand } from '../sending.ts';
import { nameOf, review, view } from '../state.ts';

/** Draws the open review of the channel. While none is open, draws the last review, folded. */
export function ReviewBlock(): JSX.Element | null {
  const shownReview = review.value;
  if (shownReview === null) return null;
  const { outcome } = shownReview;
  return (
    <Block id="review" title="Review" data-testid="review">
      {outcome === null ? (
        <ReviewParts {...shownReview} />
      ) : (
        <details key={shownReview.id} class="review-ended">
          <summary>Ended: {outcome.kind}</summary>
          <p class="review-words">{outcome.why}</p>
          <ReviewParts {...shownReview} />
        </details>
      )}
    </Block>
  );
}

function ReviewParts(shown: ReviewView): JSX.Element {
  const { primary, reviewer, iteration, allowed, waiting, outcome, findings } = shown;
  return (
    <>
      <p class="review-words">
        <span class={`speaker ${toneOf(primary)}`}>{nameOf(primary)}</span> works,{' '}
        <span class={`speaker ${toneOf(reviewer)}`}>{nameOf(reviewer)}</span> reviews.
      </p>
      {outcome === null && (
        <p class="review-words" data-testid="review-state">
          Iteration {iteration} of {allowed}. {stateWords(shown)}
        </p>
      )}
      {waiting?.until != null && <p class="faint">The wait ends in {clockText(waiting.until - now.value)}.</p>}
      {outcome === null && <ReviewChoices {...shown} />}
      <Button kind="small-button" onClick={() => sendCommand('/review diff')}>
        Show changes
      </Button>
      <Iterations {...shown} />
      {findings.length > 0 && <Findings {...shown} />}
    </>
  );
}

function stateWords({ agent, primary, waiting }: ReviewView): string {
  if (waiting !== null) return `Waits: ${waiting.why}`;
  if (agent === null) return 'Between two turns.';
  return `${nameOf(agent)} ${agent === primary ? 'works' : 'reviews'} now.`;
}

/** The buttons by which people decide a review. While the review asks nobody, only the button that cancels it. */
function ReviewChoices(shown: ReviewView): JSX.Element {
  const all = reviewButtons(view.value?.store ?? '', shown);
  return (
    <div class="buttons review-buttons">
      {(shown.waiting?.asksPeople === true ? all : all.slice(-1)).map(({ label, line, drawnFor }) => (
        <LineButton
          key={line}
          line={line}
          drawnFor={drawnFor}
          aria-label={label === 'Accept the work' || label === 'Reviewer is right' ? label : `${label} (review)`}
        >
          {label}
        </LineButton>
      ))}
    </div>
  );
}

function Iterations({ iterations }: ReviewView): JSX.Element {
  return (
    <ol class="iterations" aria-label="Iterations" data-testid="iterations">
      {iterations.map(({ verdict, opened, fixed, disputed, reappeared, hasEnded }, place) => (
        <li key={place} data-verdict={verdict ?? (hasEnded ? undefined : 'running')}>
          <b>
            {place + 1} {verdict ?? (hasEnded ? 'no verdict' : 'running')}
          </b>
          <span class="faint">{countWords({ opened, fixed, disputed, reappeared })}</span>
        </li>
      ))}
    </ol>
  );
}

function countWords(counts: Readonly<Record<'opened' | 'fixed' | 'disputed' | 'reappeared', number>>): string {
  const words = Object.entries(counts).flatMap(([kind, count]) => (count === 0 ? [] : `${count} ${kind}`));
  return words.join(', ') || 'no findings';
}

function Findings({ findings }: ReviewView): JSX.Element {
  return (
    <>
      <h3 id="findings-title" class="review-heading">
        Open findings
      </h3>
      <ul class="findings" aria-labelledby="findings-title" data-testid="findings">
        {findings.map(({ id, severity, place, title, status, reason }) => (
          <li key={id}>
            <p>
              <b>
                {id} {severity}
              </b>{' '}
              <span class="faint">{status}</span>
            </p>
            {place !== null && <code>{place}</code>}
            <p>{title}</p>
            {reason !== null && <p class="faint">Reason: {reason}</p>}
          </li>
        ))}
      </ul>
    </>
  );
}
