import { effect, signal } from '@preact/signals';

const STORED_AS = 'conch-theme';
type Theme = 'system' | 'light' | 'dark';

/** What the person chose; `system` follows the machine. */
export const theme = signal<Theme>(stored());

/** Draws the page in the chosen theme, now and after every change. */
export function startTheme(): void {
  effect(() => {
    const chosen = theme.value;
    if (chosen === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = chosen;
    try {
      localStorage.setItem(STORED_AS, chosen);
    } catch {
      return;
    }
  });
}

/** From what is drawn now to the other one. */
export function toggleTheme(): void {
  theme.value = isDark() ? 'light' : 'dark';
}

/** Whether the page is dark now. */
export function isDark(): boolean {
  if (theme.value !== 'system') return theme.value === 'dark';
  return matchMedia('(prefers-color-scheme: dark)').matches;
}

function stored(): Theme {
  try {
    const value = localStorage.getItem(STORED_AS);
    return value === 'light' || value === 'dark' ? value : 'system';
  } catch {
    return 'system';
  }
}
