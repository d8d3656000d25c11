import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type * as Later from './views.ts';

type Views = typeof Later;

/** The views that the first download leaves out; `null` until they are loaded, `failed` after a failed download. */
const views = signal<Views | 'failed' | null>(null);

/** Returns the views of `views.ts`. Loads them when a component that needs one is drawn; again after a failure. */
export function useLaterViews(): Views | 'failed' | null {
  useEffect(() => {
    const keep = (loaded: Views | 'failed'): void => void (views.value = loaded);
    if (views.peek() === null || views.peek() === 'failed') void import('./views.ts').then(keep, () => keep('failed'));
  }, []);
  return views.value;
}
