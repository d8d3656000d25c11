import type { ChannelId } from '../../turns/floor/settings.ts';
import type { FloorQueries, Place } from '../port.ts';

/** Where a message belongs: the channel with the floor, and the place whose rules hold. */
export type Whereabouts = {
  readonly channel: ChannelId;
  readonly place: Place;
  /** The channel of a thread that has no floor yet: it is to be opened first. */
  readonly opens: Place | null;
};

/**
 * Where the messages of a channel, or of a thread of `parent`, belong by the configuration: to the channel's own floor, to a
 * floor of the thread, to the parent's floor, or nowhere.
 */
export function floorOf(
  queries: Pick<FloorQueries, 'channels'>,
  channel: ChannelId,
  parent: ChannelId | null,
): Whereabouts | null {
  const places = queries.channels();
  const placeOf = (id: ChannelId | null): Place | null => places.find((place) => place.id === id) ?? null;
  const own = placeOf(channel);
  if (own !== null && own.parent === null) return { channel, place: own, opens: null };
  const above = placeOf(own?.parent ?? parent);
  if (above === null || above.parent !== null || above.threads === 'ignore') return null;
  if (above.threads === 'parent') return { channel: above.id, place: above, opens: null };
  return { channel, place: own ?? above, opens: own === null ? above : null };
}
