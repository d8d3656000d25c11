import type { ComponentChildren, JSX } from 'preact';
import { Icon } from './icons.tsx';
import type { IconName } from './icons.tsx';
import { exactTime, timeOfDay } from './now.ts';
import { dismiss, pressButton, sendCommand, toasts } from './sending.ts';
import type { Spoken } from './sending.ts';
import { agents, drawerOpen } from './state.ts';

const TONES = 8;

/** Returns the CSS class of a speaker's colour: for agents by their place in the list of agents, for others by id. */
export function toneOf(id: string): string {
  const place = agents.value.findIndex((agent) => agent.id === id);
  return `tone-${(place >= 0 ? place : hash(id)) % TONES}`;
}

/** A speaker's picture: an image, one or two characters such as an emoji, or initials on the speaker's colour. */
export function Avatar(props: {
  readonly id: string;
  readonly name: string;
  readonly avatar: string | null;
  readonly kind?: 'person' | 'agent';
}): JSX.Element {
  const { id, name, avatar, kind = 'agent' } = props;
  const tone = kind === 'person' ? 'tone-person' : toneOf(id);
  const isPicture = avatar !== null && /^(https:|data:image\/)/.test(avatar);
  const sign = isPicture ? null : shortText(avatar);
  return (
    <span class={`avatar ${tone}${sign === null ? '' : ' has-sign'}`} aria-hidden="true">
      {isPicture ? <img src={avatar} alt="" referrerpolicy="no-referrer" /> : (sign ?? initials(name))}
    </span>
  );
}

const LETTERS = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

function lettersOf(text: string): readonly string[] {
  return Array.from(LETTERS.segment(text), ({ segment }) => segment);
}

function shortText(avatar: string | null): string | null {
  return avatar !== null && avatar !== '' && lettersOf(avatar).length <= 2 ? avatar : null;
}

function initials(name: string): string {
  const words = name.split(/[\s_-]+/).filter((word) => word !== '');
  const letters = words.length > 1 ? words.slice(0, 2).map((word) => lettersOf(word)[0]) : lettersOf(name).slice(0, 2);
  return letters.join('').toUpperCase();
}

function hash(text: string): number {
  let sum = 0;
  for (const letter of text) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 9973;
  return sum;
}

type ButtonProps = Omit<JSX.IntrinsicElements['button'], 'class' | 'icon'> & {
  readonly kind?: string;
  readonly icon?: IconName;
};

/** A button that does not submit a form. */
export function Button({ kind, icon, children, ...rest }: ButtonProps): JSX.Element {
  return (
    <button type="button" class={kind} {...rest}>
      {icon !== undefined && <Icon name={icon} />}
      {children}
    </button>
  );
}

type SignButtonProps = Omit<ButtonProps, 'children' | 'label'> & { readonly icon: IconName; readonly label: string };

/** A button with an icon and no text. */
export function SignButton({ label, kind = '', ...rest }: SignButtonProps): JSX.Element {
  return <Button kind={`quiet square ${kind}`} aria-label={label} title={label} {...rest} />;
}

type LineButtonProps = ButtonProps & { readonly line: string; readonly drawnFor?: string };

/**
 * A small button that runs a command line for one question or turn. `drawnFor`: names the question or turn; by default
 * the turn that the page shows.
 */
export function LineButton({ line, drawnFor, ...rest }: LineButtonProps): JSX.Element {
  const run = (): void => (drawnFor === undefined ? pressButton(line) : sendCommand(line, { drawnFor }));
  return <Button kind="small-button" title={line} onClick={run} {...rest} />;
}

/** A small button whose command is answered in the conversation. */
export function AskInConversation({ line, children }: LineButtonProps): JSX.Element {
  const act = (): void => {
    drawerOpen.value = false;
    sendCommand(line, { typed: true });
  };
  return (
    <LineButton line={line} onClick={act}>
      {children}
    </LineButton>
  );
}

type SelectProps = Omit<JSX.IntrinsicElements['select'], 'children' | 'role'> & {
  readonly options: readonly (readonly [value: string, words: string])[];
};

/** A menu of options, one of which is chosen. */
export function Select({ options, ...rest }: SelectProps): JSX.Element {
  return (
    <select {...rest}>
      {options.map(([value, words]) => (
        <option key={value} value={value}>
          {words}
        </option>
      ))}
    </select>
  );
}

type BlockProps = { readonly id: string; readonly title: ComponentChildren; readonly children: ComponentChildren };

/** A section of the panel with its title. */
export function Block({
  id,
  title,
  children,
  ...rest
}: BlockProps & Omit<JSX.IntrinsicElements['section'], 'id' | 'title'>): JSX.Element {
  return (
    <section class="block" aria-labelledby={`${id}-title`} {...rest}>
      <h2 id={`${id}-title`}>{title}</h2>
      {children}
    </section>
  );
}

/** An instant, by default as the time of day. Its title is the date and the time. */
export function Time({
  at,
  shown = timeOfDay,
}: {
  readonly at: number;
  readonly shown?: (at: number) => string;
}): JSX.Element {
  return (
    <time dateTime={new Date(at).toISOString()} title={exactTime(at)}>
      {shown(at)}
    </time>
  );
}

/** Toasts: answers, refusals and notices. */
export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ key, kind, text }) => (
        <div key={key} class={`toast is-${kind}`} data-testid="toast" data-kind={kind}>
          <span class="toast-text">{text}</span>
          <SignButton icon="close" label="Dismiss" kind="small" onClick={() => dismiss(key)} />
        </div>
      ))}
    </div>
  );
}

/** An answer in the conversation, shown to this page only. */
export function CommandAnswer({ answer }: { readonly answer: Spoken }): JSX.Element {
  return (
    <li class={`answer is-${answer.kind}`} data-testid="answer" data-ok={answer.kind === 'answer'}>
      <div class="answer-head">
        <code>{answer.line}</code>
        <span class="faint">only you see this</span>
        <SignButton icon="close" label="Dismiss" kind="small" onClick={() => dismiss(answer.key)} />
      </div>
      <pre class="answer-text" role="status">
        {answer.text}
      </pre>
    </li>
  );
}
