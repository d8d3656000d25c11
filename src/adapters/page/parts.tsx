import type { JSX } from 'preact';
import { agents } from './state.ts';

const TONES = 8;

/** The colour of a speaker: agents in the order of the configuration, everybody else by name. */
export function toneOf(id: string): string {
  const place = agents.value.findIndex((agent) => agent.id === id);
  return `tone-${(place >= 0 ? place : hash(id)) % TONES}`;
}

/** A speaker's picture: its own, its emoji, or its initials on its colour. */
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
