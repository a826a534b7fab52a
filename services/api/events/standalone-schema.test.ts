import { expect, test } from 'vitest';
import { z } from 'zod';
import { WEBHOOK_EVENT_SCHEMAS } from '#core/domain/webhooks/event-schemas.ts';
import { standaloneSchema } from './standalone-schema.ts';

test('references are replaced by their definitions, and keywords next to a reference are kept', () => {
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

test.each(Object.entries(WEBHOOK_EVENT_SCHEMAS))(
  'the schema of %s contains no references',
  (_type, schema) => {
    const alone = standaloneSchema(z.toJSONSchema(schema, { io: 'output' }));
    expect(alone).toMatchObject({ type: 'object' });
    expect(JSON.stringify(alone)).not.toContain('$ref');
  },
);
