import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { runCommand } from '#test/support/command.ts';
import { installOwnPackages } from '#test/support/own-packages.ts';

const DOCUMENT = 'services/api/openapi.json';
let programs: string;

beforeAll(async () => {
  programs = await installOwnPackages('test/linters');
}, 240_000);

test.concurrent.each([
  ['redocly', ['lint', '--config=test/linters/redocly.yaml', '--max-problems=1000', DOCUMENT]],
  ['spectral', ['lint', '--ruleset=test/linters/spectral.yaml', '--fail-severity=hint', DOCUMENT]],
])('the OpenAPI document passes %s without a finding', async (name, args) => {
  const { code, output } = await runCommand([join(programs, name), ...args], 'gather');
  expect({ code, output }).toEqual({ code: 0, output: expect.any(String) as unknown });
});
