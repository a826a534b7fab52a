import { CLOCK_FAULTS } from './clocks.ts';
import type { Fault } from './fault.ts';
import { NATS_FAULTS } from './nats.ts';
import { POINT_FAULTS } from './points.ts';
import { POSTGRES_FAULTS } from './postgres.ts';
import { PROCESS_FAULTS } from './processes.ts';
import { PROVIDER_FAULTS } from './providers.ts';
import { RECEIVER_FAULTS } from './receivers.ts';
import { TENANT_FAULTS } from './tenants.ts';
import { VAULT_FAULTS } from './vault.ts';

export const FAULTS: readonly Fault[] = [
  ...PROCESS_FAULTS,
  ...POINT_FAULTS,
  ...POSTGRES_FAULTS,
  ...NATS_FAULTS,
  ...VAULT_FAULTS,
  ...PROVIDER_FAULTS,
  ...RECEIVER_FAULTS,
  ...CLOCK_FAULTS,
  ...TENANT_FAULTS,
];

export const FAULT_NAMES: readonly string[] = FAULTS.map(({ name }) => name);
