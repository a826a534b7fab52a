import emailAddresses from 'email-addresses';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { isMailboxShaped } from './is-mailbox-shaped.ts';
import { parseMailbox } from './mailbox.ts';

const part = fc.constantFrom(
  'a',
  'b.c',
  'é',
  '"',
  '"x y"',
  '\\',
  '\\"',
  ' ',
  '.',
  '@',
  '<',
  '>',
  '(',
  ')',
  '(c)',
  '[',
  ']',
  '[1.2.3.4]',
  ',',
  ':',
  ';',
);
const likely = fc
  .tuple(
    fc.array(fc.constantFrom('Ann', '"A, B"', ' ', '(work)', '.', 'é'), { maxLength: 4 }),
    fc.boolean(),
    fc.constantFrom('ann', '"a b"', 'a.b', 'a . b', 'é', '"a".b'),
    fc.constantFrom('@', ' @ ', '@(c)'),
    fc.constantFrom('b.example', 'b . example', '[::1]', 'é.example', 'b'),
    fc.constantFrom('', ' ', '(home)', ' (a (b))'),
  )
  .map(([name, angle, local, at, domain, end]) =>
    angle ? `${name.join('')}<${local}${at}${domain}>${end}` : `${local}${at}${domain}${end}`,
  );

test('every mailbox that the full grammar accepts passes isMailboxShaped', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.array(part, { maxLength: 12 }).map((parts) => parts.join('')),
        likely,
      ),
      (text) => {
        const options = { input: text, rfc6532: true, startAt: 'mailbox' };
        const taken = emailAddresses.parseOneAddress(options as never);
        fc.pre(taken !== null);
        expect({ text, is: isMailboxShaped(text) }).toEqual({ text, is: true });
      },
    ),
    { numRuns: 2_000, examples: [['a@[\\[1.2.3.4]']] },
  );
});

test.each(['(', '(a', '"', 'a ', 'a.', 'a . ', '()', '""', '<', ' ', 'é ', '[', 'a(x).'])(
  'text with many repetitions of %j is parsed quickly',
  (text) => {
    const texts = ['', '@b', '<a@b', 'a@'].flatMap((rest) => {
      const many = text.repeat(320 / text.length);
      return [many + rest, rest + many, `${many}<a@b>`];
    });
    const start = performance.now();
    for (let i = 0; i < 20; i += 1) for (const one of texts) parseMailbox(one);
    // The full grammar takes seconds for some of them.
    expect(performance.now() - start).toBeLessThan(500);
  },
);
