import { expect, test } from 'vitest';
import type { DependencyFault } from '#core/domain/fault/dependency-error.ts';
import type { KeyringErrorCode } from './keyring.ts';
import { toKeyringError } from './vault-keyring.ts';

const said = (status: number, error = '') => ({ status, body: null, error });

test.each<[string, Parameters<typeof toKeyringError>, KeyringErrorCode, DependencyFault]>([
  ['no answer in time', ['decrypt', { ...said(0), isLate: true }], 'unavailable', 'deadline'],
  ['no connection', ['decrypt', said(0, 'ECONNREFUSED')], 'unavailable', 'unavailable'],
  ['a sealed Vault', ['encrypt', said(503)], 'unavailable', 'unavailable'],
  ['a denied policy', ['rotate_key', said(403)], 'refused', 'refused'],
  ['a missing key', ['decrypt', said(400, 'encryption key not found')], 'key_missing', 'rejected'],
  [
    'a damaged ciphertext',
    ['decrypt', said(400, 'invalid ciphertext: unable to decrypt')],
    'corrupt',
    'rejected',
  ],
  [
    'a trimmed key version',
    ['rewrap', said(400, 'ciphertext or signature version is disallowed by policy (too old)')],
    'corrupt',
    'rejected',
  ],
  [
    'a disaster recovery secondary',
    ['decrypt', said(400, 'path disabled in replication DR secondary mode')],
    'refused',
    'refused',
  ],
  ['a 400 of a proxy', ['decrypt', said(400)], 'refused', 'refused'],
])('%s is mapped to its code and fault', (_, of, code, fault) => {
  const error = toKeyringError(...of);
  expect([error.dependency, error.code, error.fault]).toEqual(['vault', code, fault]);
});
