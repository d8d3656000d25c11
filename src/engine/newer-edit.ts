import type { MessageChange, StoredMessage } from './port.ts';

/** Whether a change says something that is not known of the message yet: an edit that another overtook does not. */
export function isNewerEdit(change: MessageChange, known: StoredMessage): boolean {
  if (known.deleted) return false;
  if (change.change === 'deleted') return true;
  const isOlder = change.version !== undefined && known.version !== undefined && change.version <= known.version;
  return !isOlder && change.text !== known.text;
}
