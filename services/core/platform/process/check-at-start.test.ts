import { expect, test } from 'vitest';
import { checkAtStart } from './check-at-start.ts';

/** Creates a check that gives the answers, one after the other, and the last of them again and again. */
function answering(...answers: readonly (boolean | Error)[]) {
  const check = async (): Promise<boolean> => {
    const answer = answers[Math.min(check.asked++, answers.length - 1)];
    if (answer instanceof Error) throw answer;
    return answer ?? false;
  };
  check.asked = 0;
  return check;
}

const running = new AbortController().signal;

test('a check that is answered is not repeated', async () => {
  const check = answering(true);
  await checkAtStart(check, running, 1);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(check.asked).toBe(1);
});

test('a check that fails at once fails the start', async () => {
  await expect(checkAtStart(answering(new Error('other')), running, 1)).rejects.toThrow('other');
});

test('a check without an answer is repeated until there is one, and the start goes on', async () => {
  const check = answering(false, false, false, true);
  await checkAtStart(check, running, 1);
  expect(check.asked).toBe(1);
  await expect.poll(() => check.asked).toBe(4);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(check.asked).toBe(4);
});

test('a stopped process repeats no check', async () => {
  const stopping = new AbortController();
  const check = answering(false);
  await checkAtStart(check, stopping.signal, 10);
  stopping.abort();
  await new Promise((resolve) => setTimeout(resolve, 30));
  expect(check.asked).toBe(1);
});
