import { afterEach, expect, test, vi } from 'vitest';
import { secret } from '#core/domain/storage/secret.ts';
import { createLogger } from '../telemetry/logger.ts';
import { openVaultSession } from './vault-session.ts';
import type { VaultAnswer } from './vault-transport.ts';

afterEach(() => void vi.useRealTimers());

const refused: VaultAnswer = { status: 403, body: undefined, error: 'permission denied' };
const served: VaultAnswer = { status: 200, body: {}, error: '' };

/** A session whose logins return the tokens t1, t2, … */
function setup(isRefused: () => boolean = () => false) {
  let logins = 0;
  const session = openVaultSession({
    auth: { method: 'approle', mount: 'approle', roleId: 'role', secretId: secret('id') },
    call: async () => {
      if (isRefused()) return refused;
      logins += 1;
      const auth = { client_token: `t${logins}`, lease_duration: 3_600, renewable: false };
      return { status: 200, body: { auth }, error: '' };
    },
    log: createLogger({ level: 'error', component: 'test' }),
    onTokenExpiry: () => undefined,
  });
  return { session, logins: () => logins };
}

test('a refused token is replaced, though the clock was set back since the last refusal', async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  const it = setup();
  using session = it.session;
  const revoked = new Set<string>();
  const send = (token: string) => Promise.resolve(revoked.has(token) ? refused : served);
  revoked.add('t1');
  expect(await session.withToken(send)).toEqual(served);
  vi.advanceTimersByTime(60_000);
  vi.setSystemTime(Date.now() - 3_600_000);
  revoked.add('t2');
  expect(await session.withToken(send)).toEqual(served);
  expect(it.logins()).toBe(3);
});

test('a token is used until its lifetime is over, though the clock was set ahead or back', async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  const it = setup();
  using session = it.session;
  const used = () => session.withToken((text) => Promise.resolve({ ...served, error: text }));
  expect(await used()).toMatchObject({ error: 't1' });
  vi.setSystemTime(Date.now() + 7_200_000);
  expect(session.isLoggedIn()).toBe(true);
  vi.setSystemTime(Date.now() - 14_400_000);
  vi.advanceTimersByTime(3_600_001);
  expect(session.isLoggedIn()).toBe(false);
  expect(await used()).toMatchObject({ error: 't2' });
});

test('a failed login is tried again, though the clock was set back since', async () => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  let isAway = true;
  const it = setup(() => isAway);
  using session = it.session;
  const used = () => session.withToken(() => Promise.resolve(served));
  await expect(used()).rejects.toMatchObject({ code: 'unavailable' });
  isAway = false;
  vi.setSystemTime(Date.now() - 3_600_000);
  vi.advanceTimersByTime(60_000);
  expect(await used()).toEqual(served);
});
