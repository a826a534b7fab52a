import type { Task } from '../tasks.ts';
import { verifyRequested, type VerifyDeps } from './verify-requested.ts';

export type AccountTaskName = 'verify';

const VERIFY_MS = 5_000;

export function accountTasks(deps: VerifyDeps): Record<AccountTaskName, Task> {
  return { verify: { everyMs: VERIFY_MS, work: () => verifyRequested(deps) } };
}
