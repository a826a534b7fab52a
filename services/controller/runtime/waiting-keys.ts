/**
 * Why a key waits:
 * - `change`: its object has changed, or a pass over it has failed.
 * - `routine`: all else, such as a resync, or a plan that thousands of tenants follow.
 */
export type Lane = 'change' | 'routine';

/** Keys that no worker has. Each one waits in one lane. */
export type WaitingKeys = {
  /** A key that waits already moves from `routine` to `change`, and never back. */
  readonly add: (key: string, lane: Lane) => void;
  readonly take: () => string | undefined;
  readonly size: () => number;
  readonly clear: () => void;
};

/** Changes that may be taken in a row while a routine key waits: such keys get a part of the workers under any load. */
const CHANGES_IN_A_ROW_MAX = 3;

/**
 * Orders keys so that a change waits neither for routine passes over thousands of other objects nor for the changes of another
 * namespace: whoever may write Tenants in one namespace must not delay a suspension in another. In a lane namespaces take turns,
 * and the keys of a namespace keep the order of their adds.
 */
export function createWaitingKeys(): WaitingKeys {
  const lanes = { change: createLane(), routine: createLane() };
  let changesInARow = 0;

  return {
    add(key, lane) {
      if (lanes.change.has(key)) return;
      if (lane === 'change') lanes.routine.remove(key);
      lanes[lane].add(key);
    },
    take() {
      if (lanes.routine.size() === 0 || lanes.change.size() === 0) {
        changesInARow = 0;
        return lanes.change.take() ?? lanes.routine.take();
      }
      const isRoutine = changesInARow === CHANGES_IN_A_ROW_MAX;
      changesInARow = isRoutine ? 0 : changesInARow + 1;
      return isRoutine ? lanes.routine.take() : lanes.change.take();
    },
    size: () => lanes.change.size() + lanes.routine.size(),
    clear() {
      lanes.change.clear();
      lanes.routine.clear();
    },
  };
}

function createLane() {
  /** Keys by namespace; the namespace whose turn comes next is first. */
  const namespaces = new Map<string, Set<string>>();
  let size = 0;

  return {
    has: (key: string): boolean => namespaces.get(namespaceOf(key))?.has(key) ?? false,
    add(key: string): void {
      const namespace = namespaceOf(key);
      const keys = namespaces.get(namespace) ?? new Set();
      namespaces.set(namespace, keys);
      if (!keys.has(key)) size += 1;
      keys.add(key);
    },
    remove(key: string): void {
      const namespace = namespaceOf(key);
      const keys = namespaces.get(namespace);
      if (keys?.delete(key) !== true) return;
      size -= 1;
      if (keys.size === 0) namespaces.delete(namespace);
    },
    take(): string | undefined {
      const [first] = namespaces;
      if (first === undefined) return undefined;
      const [namespace, keys] = first;
      const [key] = keys;
      namespaces.delete(namespace);
      if (key === undefined) return undefined;
      keys.delete(key);
      size -= 1;
      if (keys.size > 0) namespaces.set(namespace, keys);
      return key;
    },
    size: (): number => size,
    clear(): void {
      namespaces.clear();
      size = 0;
    },
  };
}

/** Returns the namespace of a key; empty for an object without one. */
function namespaceOf(key: string): string {
  return key.slice(0, Math.max(0, key.indexOf('/')));
}
