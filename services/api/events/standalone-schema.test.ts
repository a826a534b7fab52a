import { expect, test } from 'vitest';
import { z } from 'zod';
import { WEBHOOK_EVENT_SCHEMAS } from '#core/domain/event-envelope.ts';
import { standaloneSchema } from './standalone-schema.ts';

test('a schema holds what it refers to, also within it, and says more of it where it did', () => {
  const schema = {
    $schema: 'x',
    $ref: '#/$defs/A',
    $defs: { A: { properties: { b: { $ref: '#/$defs/B', description: 'Mine' } } }, B: { type: 'string' } },
  };
  expect(standaloneSchema(schema)).toEqual({
    $schema: 'x',
    properties: { b: { type: 'string', description: 'Mine' } },
  });
});

test.each(Object.entries(WEBHOOK_EVENT_SCHEMAS))('the schema of %s refers to nothing', (_type, schema) => {
  const alone = standaloneSchema(z.toJSONSchema(schema, { io: 'output' }));
  expect(alone).toMatchObject({ type: 'object' });
  expect(JSON.stringify(alone)).not.toContain('$ref');
});
