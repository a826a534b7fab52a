import { expect, test } from 'vitest';
import { configTable } from '#core/platform/config/config-table.ts';
import { readDeployments } from './configuration.ts';

test('the reference covers every deployment, and describes every variable', async () => {
  const deployments = await readDeployments(new URL('./', import.meta.url));
  expect(deployments.map(({ deployment }) => deployment)).toEqual(
    expect.arrayContaining(['api', 'controller', 'migrate', 'worker']),
  );
  const table = configTable(deployments);
  expect(table).toContain('| `DATABASE_URL` † | api, controller, migrate, worker |');
  // Deployments may differ in what they need, and in their defaults.
  expect(table).toContain('| `PUBLIC_BASE_URL` | api, worker | URL | api: **required**; worker: – |');
  expect(table.split('\n').filter((line) => /\|\s+\|$/.test(line))).toEqual([]);
});
