import { expect, test } from 'vitest';
import {
  databaseFaultOf,
  isDamage,
  isLockRefused,
  isPlaceRefused,
  isRedefinition,
  isRowAtFault,
  isUndone,
  isUnreachable,
} from './database-fault.ts';
import { DependencyError } from '../fault/dependency-error.ts';

function refusal(code: string): Error {
  return Object.assign(new Error('refused'), { name: 'PostgresError', code });
}

test.each([
  [
    'row',
    ['21000', '22001', '22003', '22021', '22P02', '22P05', '23502', '23503', '23505', '23514', '44000'],
  ],
  [
    'row',
    ['54000', '54001', '54011', '54023', 'P0001', 'P0004', 'XX000', 'XX001', 'XX002', '38000', '39000'],
  ],
  ['row', ['20000', '27000', '2F000']],
  [
    'away',
    ['08000', '08006', '08P01', '25006', '25P02', '25P03', '28000', '28P01', '3D000', '40001', '40P01'],
  ],
  [
    'away',
    ['53000', '53100', '53200', '53300', '53400', '55000', '55006', '55P03', '58000', '58030', '72000'],
  ],
  ['away', ['DS001', 'DS004']],
  ['away', ['57000', '57014', '57P01', '57P02', '57P03', '57P05']],
  ['service', ['0A000', '26000', '3F000', '42501', '42601', '42703', '42883', '42P01', 'F0000', 'HV000']],
])('SQLSTATE codes that are classified as %s', (fault, codes) => {
  expect(codes.filter((code) => databaseFaultOf(refusal(code)) !== fault)).toEqual([]);
});

test('isLockRefused recognizes lock timeouts and deadlocks', () => {
  const codes = ['55P03', '40P01', '55000', '40001', '57014'];
  expect(codes.filter((code) => isLockRefused(refusal(code)))).toEqual(['55P03', '40P01']);
  expect(isLockRefused(undefined)).toBe(false);
  expect(isLockRefused(Object.assign(new Error('of another'), { code: '55P03' }))).toBe(false);
});

test('isRedefinition recognizes a function that differs in more than its body', () => {
  const codes = ['42P13', '42601', '42723', '42501'];
  expect(codes.filter((code) => isRedefinition(refusal(code)))).toEqual(['42P13']);
  expect(isRedefinition(undefined)).toBe(false);
  expect(isRedefinition(Object.assign(new Error('of another'), { code: '42P13' }))).toBe(false);
});

test('isUnreachable recognizes a server that is lost, and no refusal of a single statement', () => {
  const lost = ['08006', '28P01', '3D000', '53300', '57P01', '57P02', '57P03'];
  const refused = ['25006', '40001', '40P01', '53100', '53200', '55P03', '57014', '58030', '42501', '22001'];
  expect([...lost, ...refused].filter((code) => isUnreachable(refusal(code)))).toEqual(lost);
  const silent = [
    Object.assign(new Error('no answer'), { code: 'CONNECTION_CLOSED' }),
    new DependencyError('postgres', 'deadline', 'took over 5 s'),
  ];
  expect(silent.map(isUnreachable)).toEqual([true, true]);
  const foreign = [undefined, new DependencyError('vault', 'deadline', 'took over 5 s'), { code: '57P01' }];
  expect(foreign.map(isUnreachable)).toEqual([false, false, false]);
});

test('isDamage recognizes damaged data and indexes', () => {
  const codes = ['XX000', 'XX001', 'XX002', '23514'];
  expect(codes.filter((code) => isDamage(refusal(code)))).toEqual(['XX001', 'XX002']);
  expect(isDamage(Object.assign(new Error('of another'), { code: 'XX001' }))).toBe(false);
});

test('isPlaceRefused recognizes a refused purge day or sequence number', () => {
  expect(['DS001', '57014'].map((code) => isPlaceRefused(refusal(code)))).toEqual([true, false]);
  const taken = (table: string) => Object.assign(refusal('23505'), { table_name: table });
  const tables = [
    'messages_20270125',
    'messages_default',
    'live_messages',
    'message_contents_20270125',
    'message_results_20270125',
  ];
  expect(tables.map((table) => isPlaceRefused(taken(table)))).toEqual([true, true, true, true, false]);
  expect(tables.map((table) => databaseFaultOf(taken(table)))).toEqual([
    'away',
    'away',
    'away',
    'away',
    'row',
  ]);
  expect([undefined, Object.assign(new Error('of another'), { code: 'DS001' })].map(isPlaceRefused)).toEqual([
    false,
    false,
  ]);
});

test('a row that met its new partition is refused for now', () => {
  const refused = (fields: object) => databaseFaultOf(Object.assign(refusal('23514'), fields));
  expect(refused({ table_name: 'messages_default' })).toBe('away');
  expect(refused({ table_name: 'messages_default', constraint_name: 'positive' })).toBe('row');
  expect(refused({ table_name: 'tenants' })).toBe('row');
  expect(databaseFaultOf(Object.assign(refusal('23502'), { table_name: 'messages_default' }))).toBe('row');
});

test('isRowAtFault recognizes refused data, and a content that is gone', () => {
  const codes = ['22P02', '23505', 'DS004', 'DS001', '57014', '42P01'];
  expect(codes.filter((code) => isRowAtFault(refusal(code)))).toEqual(['22P02', '23505', 'DS004']);
  expect(isRowAtFault(Object.assign(new Error('of another'), { code: 'DS004' }))).toBe(false);
});

test('connection errors and deadlines are classified as away', () => {
  const codes = ['CONNECTION_CLOSED', 'CONNECT_TIMEOUT', 'ECONNREFUSED', 'EPIPE', 'ENOTFOUND'];
  const late = new DependencyError('postgres', 'deadline', 'took over 5 s');
  const errors = [late, ...codes.map((code) => Object.assign(new Error('no answer'), { code }))];
  expect(errors.map(databaseFaultOf)).toEqual(errors.map(() => 'away'));
});

test('errors that are not from the database are not classified', () => {
  const foreign = [
    undefined,
    'text',
    { code: '22P02' },
    new Error('without a code'),
    Object.assign(new Error('of another'), { code: '22P02' }),
    new DependencyError('vault', 'deadline', 'took over 5 s'),
    Object.assign(new Error('of the framework'), { code: 'FST_ERR_CTP_BODY_TOO_LARGE' }),
    Object.assign(new Error('a number'), { code: 500 }),
  ];
  expect(foreign.map(databaseFaultOf)).toEqual(foreign.map(() => null));
});

test('isUndone recognizes statements that were not sent, or that the server has rolled back', () => {
  const failed = (fields: object) => Object.assign(new Error('failed'), fields);
  const answered = (fields: object) => failed({ name: 'PostgresError', routine: 'of_the_server', ...fields });
  const refused = failed({ code: 'ECONNREFUSED', syscall: 'connect' });
  const undone = [
    refused,
    failed({ code: 'ENOTFOUND', syscall: 'getaddrinfo' }),
    failed({ code: 'CONNECT_TIMEOUT' }),
    new AggregateError([refused, refused]),
    answered({ code: '57014', severity: 'ERROR' }),
    answered({ code: '57P03', severity: 'FATAL' }),
  ];
  const open = [
    failed({ code: 'ECONNREFUSED', syscall: 'read' }),
    failed({ code: 'ECONNRESET', syscall: 'read' }),
    failed({ code: 'CONNECTION_CLOSED' }),
    new AggregateError([]),
    new AggregateError([refused, failed({ code: 'ECONNRESET', syscall: 'read' })]),
    failed({ severity: 'ERROR', routine: 'of_another' }),
    new DependencyError('postgres', 'deadline', 'no answer'),
    answered({ code: '57P01', severity: 'FATAL' }),
    // Of a pooler whose connection to the server broke.
    answered({ code: '08P01', severity: 'ERROR', routine: undefined }),
    undefined,
  ];
  expect([undone.map(isUndone), open.map(isUndone)]).toEqual([undone.map(() => true), open.map(() => false)]);
});
