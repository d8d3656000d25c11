import * as fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import { customId, readCustomId } from '../../../src/adapters/discord/content.ts';
import { heldView, restingView, sendingRig, until } from './rig.ts';
import type { SendingRig } from './rig.ts';

let rig: SendingRig;

afterEach(async () => {
  await rig?.outgoing.stop();
  await rig?.server.close();
});

const CARD = '🎤 Dev · ends <t:1800000000:R> · next: qa, pm';

/** Draws the card and waits until the channel has a message with exactly the text `shows`. */
async function draws(view: ReturnType<typeof heldView>, shows: string, outgoing = rig.outgoing): Promise<void> {
  outgoing.card(rig.channel, view);
  await comes(shows);
}

async function comes(shows: string): Promise<void> {
  await until(() => {
    rig.time.advance(100);
    return rig.server.read(rig.server.channel).some(({ text }) => text === shows);
  }, `the card "${shows}"`);
}

describe('a floor', () => {
  test('is shown by one card with a countdown and buttons, without a notification', async () => {
    rig = await sendingRig();
    await draws(heldView(rig.channel), CARD);
    const [card] = rig.server.read(rig.server.channel);
    expect(card?.buttons.map(({ label, customId: id }) => `${label} ${id}`)).toEqual([
      'Skip conch:tx.c:/floor skip',
      'Stop conch:tx.c:/stop',
      'Pause conch:tx.c:/floor pause',
    ]);
    const [sent] = rig.requests('POST', /messages$/);
    expect(sent?.body).toMatchObject({ flags: 4096 | 4 });
  });

  test('whose deadline moves by 9 s keeps its card, and by 12 s has its card edited', async () => {
    rig = await sendingRig();
    const view = heldView(rig.channel);
    await draws(view, CARD);
    const later = (ms: number) => ({ ...view, holder: { ...view.holder!, deadlineAt: 1_800_000_000_000 + ms } });
    rig.outgoing.card(rig.channel, later(9_000));
    rig.time.advance(5_000);
    await draws(later(12_000), CARD.replace('1800000000', '1800000012'));
    expect(rig.requests('PATCH', /messages/)).toHaveLength(1);
  });

  test('does not retry a refused card within 50 s, and logs the refusal', async () => {
    rig = await sendingRig({ settings: { typing: false } });
    rig.server.permit(rig.server.channel, 'SendMessages', 'deny');
    rig.outgoing.card(rig.channel, heldView(rig.channel));
    await until(() => rig.logged.some((line) => line.includes('refuses the floor card')), 'the warning');
    rig.outgoing.card(rig.channel, restingView(rig.channel));
    rig.time.advance(50_000);
    await rig.outgoing.tidy(rig.channel);
    expect(rig.requests('POST', /messages$/)).toHaveLength(1);
  });
});

describe('a holder at work', () => {
  test('is shown as typing every 8 s until the turn ends', async () => {
    rig = await sendingRig({ settings: { cards: false } });
    const typed = () => rig.requests('POST', /typing$/).length;
    rig.outgoing.card(rig.channel, heldView(rig.channel));
    rig.outgoing.card(rig.channel, heldView(rig.channel, { held: ['1'] }));
    await until(() => typed() === 1, 'the first sign');
    rig.time.advance(8_000);
    await until(() => typed() === 2, 'the second sign');
    rig.outgoing.card(rig.channel, restingView(rig.channel));
    rig.time.advance(60_000);
    await rig.outgoing.tidy(rig.channel);
    expect(typed()).toBe(2);
  });
});

describe('the id of a button', () => {
  test('is parsed into the same line and turn or request', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[\w.-]{1,30}$/), fc.string({ minLength: 1, maxLength: 80 }), (drawnFor, line) => {
        expect(readCustomId(customId({ drawnFor, line }))).toEqual({ drawnFor, line });
      }),
    );
  });

  test.each(['', 'conch', 'conch:12', 'conch:12:', 'conch::/stop', 'other:12:/stop', 'conchx12:/stop'])(
    "is not parsed when the button is not Conch's (%j)",
    (text) => {
      expect(readCustomId(text)).toBeNull();
    },
  );
});
