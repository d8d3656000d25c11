import type { RemoteLink } from './remote-link.ts';

/** Where the one connection of an agent is, when it is there. */
export class ConnectionSlot {
  #link: RemoteLink | null = null;
  #arrival = Promise.withResolvers<RemoteLink>();

  /** The connection of now; `null` while the agent is away. */
  get link(): RemoteLink | null {
    return this.#link?.open === true ? this.#link : null;
  }

  /** Resolves with the connection of now, or with the next one. */
  arrival(): Promise<RemoteLink> {
    const { link } = this;
    return link === null ? this.#arrival.promise : Promise.resolve(link);
  }

  /** Another connection of the agent: it takes the place of the one before, which is closed. */
  attach(link: RemoteLink): void {
    const before = this.link;
    this.#link = link;
    this.#arrival.resolve(link);
    this.#arrival = Promise.withResolvers<RemoteLink>();
    before?.drop('another connection of the same agent took its place', { code: REPLACED, final: false });
  }
}

/** The close code that tells an agent that it is connected a second time: it must not come back by itself. */
export const REPLACED = 4409;
