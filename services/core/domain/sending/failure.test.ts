import { expect, test } from 'vitest';
import { FAILURE_CLASSES, isProviderFault } from './failure.ts';

test('only unavailability and throttling are faults of the provider', () => {
  expect(FAILURE_CLASSES.filter(isProviderFault)).toEqual(['provider_throttled', 'provider_unavailable']);
});
