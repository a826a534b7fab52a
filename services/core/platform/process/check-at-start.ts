import { pause } from './pause.ts';

const AGAIN_MS = 1_000;

/**
 * Runs a check that needs a dependency, which may be away while a process starts: then the start goes on, and the check is repeated
 * in the background. If it fails there, the rejection is unhandled and ends the process.
 * @param check returns false if the dependency did not answer.
 * @throws what the first check throws.
 */
export async function checkAtStart(
  check: () => Promise<boolean>,
  signal: AbortSignal,
  againMs = AGAIN_MS,
): Promise<void> {
  if (!(await check())) void repeat(check, signal, againMs);
}

async function repeat(check: () => Promise<boolean>, signal: AbortSignal, againMs: number): Promise<void> {
  for (let isAnswered = false; !isAnswered; isAnswered = await check()) {
    await pause(againMs, signal);
    if (signal.aborted) return;
  }
}
