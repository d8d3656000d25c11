import { effect, signal } from '@preact/signals';
import type { Signal } from '@preact/signals';

type Keeper = 'localStorage' | 'sessionStorage';

/** Returns a text that the browser stored; `null` if there is none or the browser stores nothing. */
export function stored(name: string, keeper: Keeper = 'localStorage'): string | null {
  try {
    return globalThis[keeper].getItem(name);
  } catch {
    return null;
  }
}

/** Stores a text, if the browser stores anything. */
export function store(name: string, text: string, keeper: Keeper = 'localStorage'): void {
  try {
    globalThis[keeper].setItem(name, text);
  } catch {
    return;
  }
}

/** Creates a signal whose value outlives a reload of this tab. */
export function signalOfTab<T>(name: string, initial: T): Signal<T> {
  const tabSignal = signal(parsedOr(stored(name, 'sessionStorage'), initial));
  tabSignal.subscribe((value) => store(name, JSON.stringify(value), 'sessionStorage'));
  return tabSignal;
}

function parsedOr<T>(text: string | null, initial: T): T {
  try {
    return text === null ? initial : (JSON.parse(text) as T);
  } catch {
    return initial;
  }
}

const THEME = 'conch-theme';
const THEMES = ['system', 'light', 'dark'] as const;

const theme = signal<(typeof THEMES)[number]>(THEMES.find((each) => each === stored(THEME)) ?? 'system');

/** Applies and stores the theme, now and after each change. */
export function startTheme(): void {
  effect(() => {
    if (theme.value === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = theme.value;
    store(THEME, theme.value);
  });
}

/** Switches between light and dark. */
export function toggleTheme(): void {
  const isDark = theme.value === 'system' ? matchMedia('(prefers-color-scheme: dark)').matches : theme.value === 'dark';
  theme.value = isDark ? 'light' : 'dark';
}
