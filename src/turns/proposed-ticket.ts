import { z } from 'zod';
import type { Frozen } from '../lib/tagged.ts';

/** A list of at most 20 words. This schema goes into the requests to models, so each word in it costs tokens. */
const list = (each: RegExp) =>
  z
    .array(z.string().refine((word) => each.test(word)))
    .max(20)
    .optional();

/** A ticket that an agent proposes, as its tool takes it. `text` is Markdown. */
export const proposedTicketSchema = z.object({
  title: z.string().trim().min(1).max(200),
  text: z.string().max(20_000).optional(),
  deps: list(/^[A-Za-z0-9][\w.#-]{0,99}$/).describe('ids of tickets to merge first'),
  touches: list(/^[^\s,"'[\]]{1,200}$/).describe('patterns of files'),
});

export type ProposedTicket = Frozen<z.infer<typeof proposedTicketSchema>>;
