import { expect, test } from 'vitest';
import { failure, found, refuse, stage, tenant, TENANTS, type Answer } from '#test/support/scripted-kube.ts';
import { createResourceWriter } from './resource-writer.ts';

const conflict = refuse(409, 'Conflict');

/** Writes a status of the object with the uid `uid-1`, read at version 7, to a server that gives these answers. */
async function write(...answers: readonly Answer[]) {
  await using parts = await stage(...answers);
  const { applyStatus } = createResourceWriter(parts.kube, TENANTS, 'me');
  const writing = applyStatus(tenant('7'), {}, AbortSignal.timeout(20_000));
  const error = await writing.then(
    () => undefined,
    () => failure(writing),
  );
  return { code: error?.code, methods: parts.calls.map(({ method }) => method) };
}

test.each<[string, Answer[]]>([
  ['is gone', [refuse(404, 'NotFound')]],
  ['was deleted during the write', [conflict, refuse(404, 'NotFound')]],
  ['was made anew under its name', [conflict, found('9', [], 'uid-2')]],
])('a status of an object that %s is not written, without an error', async (_how, answers) => {
  const { code, methods } = await write(...answers);
  expect([code, methods.filter((method) => method === 'PATCH')]).toEqual([undefined, ['PATCH']]);
});

test('a status that loses every conflict with other writers fails, so that the pass is tried again', async () => {
  const { code, methods } = await write(...Array.from({ length: 6 }, () => [conflict, found('8')]).flat());
  expect(code).toBe(409);
  expect(methods.filter((method) => method === 'PATCH')).toHaveLength(6);
});
