import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type * as Later from './views.ts';

type Views = typeof Later;

const views = signal<Views | 'failed' | null>(null);

/**
 * Returns the views of `views.ts`, which the first download leaves out. `null` until they are loaded, `failed` after a
 * failed download.
 */
export function useLaterViews(): Views | 'failed' | null {
  useEffect(() => {
    const keep = (loaded: Views | 'failed'): void => void (views.value = loaded);
    if (views.peek() === null || views.peek() === 'failed') void import('./views.ts').then(keep, () => keep('failed'));
  }, []);
  return views.value;
}
