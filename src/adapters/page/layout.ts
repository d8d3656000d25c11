import { signal } from '@preact/signals';

/** Where the page is while it shows them. */
export const AUDIT_PLACE = '#audit';

/** The panel beside the conversation: what it shows. */
export const tab = signal<'floor' | 'turns' | 'journal'>('floor');
/** On narrow screens the panel is a drawer. */
export const drawerOpen = signal(false);
/** Every tool call is shown in the place of the channel. */
export const auditOpen = signal(location.hash === AUDIT_PLACE);
/** The list of keyboard shortcuts is open. */
export const helpOpen = signal(false);
/** Asks the conversation to go to its end. */
export const goToEnd = signal(0);
/** Asks the conversation to go to its beginning. */
export const goToBeginning = signal(0);
/** Text that somebody wants in the composer. */
export const suggestion = signal<string | null>(null);
