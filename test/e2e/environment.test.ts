import { expect, test } from 'vitest';
import { readEnvironment } from './environment.ts';

const COMPLETE = {
  KUBECONFIG: '/k',
  E2E_LOAD_IMAGE: 'load',
  E2E_NODE_ADDRESS: '203.0.113.2',
  E2E_HOST_ADDRESS: '203.0.113.1',
  E2E_VAULT: '/vault',
};

test('the base image and the audit log are optional', () => {
  expect(readEnvironment({ ...COMPLETE, E2E_NODE_IMAGE: '' })).toMatchObject({
    kubeconfig: '/k',
    nodeImage: undefined,
    auditLog: undefined,
  });
});

test('the error names all missing variables', () => {
  expect(() => readEnvironment({ ...COMPLETE, KUBECONFIG: '', E2E_VAULT: undefined })).toThrow(
    'KUBECONFIG, E2E_VAULT',
  );
});
