import { expect, test } from 'vitest';
import { createClosedLanes } from './closed-lanes.ts';

const laneOf = (accountId: string) => ({ tenantId: 't', accountId });

function setup(isDue: (accountId: string) => boolean = () => true) {
  const state = { isStopping: false };
  const reviewed: string[] = [];
  const closed = createClosedLanes({
    review({ accountId }) {
      if (isDue(accountId)) reviewed.push(accountId);
      return Promise.resolve(isDue(accountId));
    },
    isStopping: () => state.isStopping,
  });
  return { state, reviewed, closed };
}

test('one run reviews 20 closed lanes, and the next run continues with the rest', async () => {
  const { closed, reviewed } = setup();
  const lanes = Array.from({ length: 30 }, (_, i) => laneOf(String(i)));
  const addAll = (): void => {
    for (const lane of lanes) closed.add(lane);
  };
  addAll();
  await closed.run();
  expect(reviewed).toEqual(lanes.slice(0, 20).map(({ accountId }) => accountId));
  addAll();
  await closed.run();
  expect(reviewed.slice(20, 30)).toEqual(lanes.slice(20).map(({ accountId }) => accountId));
  expect(reviewed).toHaveLength(40);
});

test("only due reviews count against a run's limit, and a lane added twice is reviewed once", async () => {
  const { closed, reviewed } = setup((accountId) => accountId === 'due');
  for (let i = 0; i < 40; i += 1) closed.add(laneOf(`not yet ${i}`));
  closed.add(laneOf('due'));
  closed.add(laneOf('due'));
  await closed.run();
  await closed.run();
  expect(reviewed).toEqual(['due']);
});

test('no lane is reviewed while the worker stops', async () => {
  const { state, closed, reviewed } = setup();
  closed.add(laneOf('a'));
  state.isStopping = true;
  await closed.run();
  expect(reviewed).toEqual([]);
});
