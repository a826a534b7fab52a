import { expect, test } from 'vitest';
import { apiConfig } from '../../services/api/config.ts';
import { workerConfig } from '../../services/worker/config.ts';
import { apiEnvironment, workerEnvironment, type EnvironmentInput } from './environments.ts';
import { USUAL_PORTS } from './ports.ts';
import { newState } from './state.ts';

const keyring = { KEYRING: 'local', LOCAL_KEYRING_DIR: '/keyring' };
const input: EnvironmentInput = {
  ports: USUAL_PORTS,
  state: newState({}, 'http://127.0.0.1:8090'),
  databaseUrl: 'postgres://127.0.0.1:5433/postgres',
  natsUrl: 'nats://127.0.0.1:4223',
  jwksUrl: 'http://127.0.0.1:20000/jwks.json',
  keyring: { api: keyring, worker: keyring },
  providerUrls: { twilio: 'http://t', fcm: 'http://f', 'whatsapp-cloud': 'http://w' },
  mailCertificateFile: '/inbox.pem',
};

test('both services accept their environment', () => {
  const api = apiConfig(apiEnvironment(input));
  expect(api.http.listen).toEqual({ host: '127.0.0.1', port: 8080 });
  expect(api.access.oidc).toMatchObject({ issuer: 'http://127.0.0.1:8090', jwksUrl: input.jwksUrl });
  const worker = workerConfig(workerEnvironment(input));
  expect(worker.egress.baseUrls).toEqual(input.providerUrls);
  expect(worker.receipts.publicBaseUrl).toBe(api.receipts.publicBaseUrl);
  expect(worker.receipts.pepper.reveal()).toBe(api.receipts.pepper.reveal());
});

test('each service logs in as itself and gets no secret of the other', () => {
  const { databasePasswords, natsPasswords, pepper } = input.state;
  const api = JSON.stringify(apiEnvironment(input));
  const worker = JSON.stringify(workerEnvironment(input));
  expect(api).toContain(`postgres://despatch_api:${databasePasswords.api}@127.0.0.1:5433/`);
  expect(worker).toContain(`postgres://despatch_worker:${databasePasswords.worker}@127.0.0.1:5433/`);
  for (const secret of [databasePasswords.worker, natsPasswords.worker]) expect(api).not.toContain(secret);
  for (const secret of [databasePasswords.api, natsPasswords.api, pepper]) {
    expect(worker).not.toContain(secret);
  }
});

test('both services listen only on the loopback address', () => {
  for (const environment of [apiEnvironment(input), workerEnvironment(input)]) {
    expect(environment['METRICS_HOST']).toBe('127.0.0.1');
  }
  expect(apiEnvironment(input)['HOST']).toBe('127.0.0.1');
});
