import { expect, test } from 'vitest';
import { migrateConfig } from './config.ts';

const DATABASE_URL = 'postgres://u:p@db.example.com/despatch';

test('the pool and the statement timeout of the services do not concern a migration, which has its own', () => {
  const config = migrateConfig({
    DATABASE_URL,
    DATABASE_POOL_MAX: 'none',
    DATABASE_STATEMENT_TIMEOUT_MS: 'none',
  });
  expect(config.postgres.url.reveal()).toBe(DATABASE_URL);
});

test('a migration without a connection string is refused', () => {
  expect(() => migrateConfig({})).toThrow('DATABASE_URL');
});
