// Preloaded into a service: shifts its wall clock by the milliseconds in a file, as setting the clock does. Timers and the
// monotonic clock do not change, as on a real machine.
import { readFileSync, watchFile } from 'node:fs';

const LOOK_MS = 100;
const file = process.env['CLOCK_FILE'];
const RealDate = Date;
let offsetMs = 0;

function look(path: string): void {
  try {
    offsetMs = Number(readFileSync(path, 'utf8'));
  } catch {
    offsetMs = 0;
  }
}

if (file !== undefined) {
  look(file);
  watchFile(file, { interval: LOOK_MS, persistent: false }, () => look(file));
  const now = (): number => RealDate.now() + offsetMs;
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args, newTarget) =>
      Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget) as Date,
    apply: (target) => new target(now()).toString(),
    get: (target, name) => (name === 'now' ? now : (Reflect.get(target, name) as unknown)),
  });
}
