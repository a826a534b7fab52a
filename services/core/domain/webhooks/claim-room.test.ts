import { expect, test } from 'vitest';
import {
  busyEndpoints,
  claimRoom,
  queryRoom,
  tenantRoom,
  tenantsWithTheirShare,
  type HeldClaims,
} from './claim-room.ts';

const IDLE: HeldClaims = {
  endpointId: 'e',
  tenantId: 't',
  claims: 0,
  waitingClaims: 0,
  waitingEvents: 0,
  isClosed: false,
};

const held = (over: Partial<HeldClaims>): HeldClaims => ({ ...IDLE, ...over });

test.each<[string, Partial<HeldClaims>[], number]>([
  ['no claims', [], 128],
  ['claims under way', [{ claims: 8 }, { claims: 8 }], 128],
  [
    'waiting claims',
    [
      { claims: 2, waitingClaims: 2 },
      { claims: 1, waitingClaims: 1 },
    ],
    125,
  ],
  ['many claims that are not recorded', [{ claims: 200 }], 56],
  ['as many waiting claims as possible', [{ claims: 128, waitingClaims: 128 }], 0],
  ['more claims than possible', [{ claims: 300 }], 0],
])('room beside %s', (_, claims, room) => {
  expect(claimRoom(claims.map(held))).toBe(room);
});

test.each([
  [0, 0, 0, 1],
  [1, 0, 1, 1],
  [128, 0, 64, 64],
  [128, 2, 64, 32],
  [15, 30, 8, 1],
])(
  'of a room of %i, beside %i tenants, a query takes %i claims and a tenant %i',
  (room, tenants, ...taken) => {
    expect([queryRoom(room), tenantRoom(room, tenants)]).toEqual(taken);
  },
);

test.each<[string, Partial<HeldClaims>, boolean]>([
  ['without claims', {}, false],
  ['that is closed', { isClosed: true }, true],
  ['with one waiting claim', { claims: 1, waitingClaims: 1 }, false],
  ['with two waiting claims', { claims: 2, waitingClaims: 2 }, true],
  ['with seven claims', { claims: 7 }, false],
  ['with eight claims', { claims: 8 }, true],
])('an endpoint %s: busy?', (_, claims, isBusy) => {
  expect(busyEndpoints([held(claims)])).toEqual(isBusy ? ['e'] : []);
});

test.each<[string, Partial<HeldClaims>[], { room?: number; eventsMax?: number }, string[]]>([
  ['a single one with little', [{ claims: 3, waitingClaims: 2 }], {}, []],
  ['half of the waiting claims', [{ claims: 64, waitingClaims: 64 }], {}, ['t']],
  [
    'a third of the waiting claims beside a tenant without waiting ones',
    [
      { claims: 43, waitingClaims: 43 },
      { tenantId: 'u', claims: 1 },
    ],
    {},
    [],
  ],
  ['half of the claims, over two endpoints', [{ claims: 64 }, { claims: 64 }], {}, ['t']],
  ['half of the events', [{ claims: 1, waitingClaims: 1, waitingEvents: 50 }], { eventsMax: 100 }, ['t']],
  ['fewer events', [{ claims: 1, waitingClaims: 1, waitingEvents: 49 }], { eventsMax: 100 }, []],
  ['a waiting claim where little room is left', [{ claims: 1, waitingClaims: 1 }], { room: 16 }, ['t']],
  ['no waiting claim where little room is left', [{ claims: 1 }], { room: 16 }, []],
  [
    'a third of the waiting claims beside another tenant',
    [
      { claims: 42, waitingClaims: 42 },
      { tenantId: 'u', claims: 1, waitingClaims: 1 },
    ],
    {},
    ['t'],
  ],
])('a tenant with %s: has it its share?', (_, claims, { room = 100, eventsMax = Infinity }, tenants) => {
  expect(tenantsWithTheirShare(claims.map(held), room, eventsMax)).toEqual(tenants);
});

test('however many tenants there are, each may hold two claims', () => {
  const many = Array.from({ length: 200 }, (_, i) => held({ tenantId: `t${i}`, claims: i === 0 ? 3 : 2 }));
  expect(tenantsWithTheirShare(many, 100, Infinity)).toEqual(['t0']);
});
