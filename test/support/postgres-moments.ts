import type { Direction, Inspector } from './tcp-proxy.ts';

type Frame = { readonly type: string; readonly body: Buffer };

/**
 * Returns an inspector that recognises calls of schema functions in the Postgres protocol. For a function `f` it names two
 * moments: `f.before` with the bytes of the call, `f.after` with those that report the commit.
 */
export function postgresMoments(functions: readonly string[]): Inspector {
  const statements = new Map<string, string>();
  const frames = { up: frameReader(true), down: frameReader(false) };
  /** Calls without an answer so far, one entry for each Sync. */
  const asked: string[][] = [];
  let current: string[] = [];

  const functionOf = (sql: string): string | undefined =>
    functions.find((name) => new RegExp(`\\b${name}\\(`).test(sql));

  function up({ type, body }: Frame): string[] {
    if (type === 'P') {
      const [name = '', sql = ''] = strings(body);
      statements.set(name, sql);
    } else if (type === 'B') {
      const [, statement = ''] = strings(body);
      const name = functionOf(statements.get(statement) ?? '');
      if (name !== undefined) {
        current.push(name);
        return [`${name}.before`];
      }
    } else if (type === 'S' || type === 'Q') {
      asked.push(current);
      current = [];
    }
    return [];
  }

  function down({ type }: Frame): string[] {
    // ReadyForQuery: the calls before the Sync are committed or rolled back.
    return type === 'Z' ? (asked.shift() ?? []).map((name) => `${name}.after`) : [];
  }

  return (direction: Direction, bytes: Buffer) =>
    frames[direction](bytes).flatMap((frame) => (direction === 'up' ? up(frame) : down(frame)));
}

/** Returns the first two strings of a message, each of which ends with a zero byte. */
function strings(body: Buffer): string[] {
  const first = body.indexOf(0);
  const second = body.indexOf(0, first + 1);
  return [body.toString('utf8', 0, first), body.toString('utf8', first + 1, second)];
}

/** The part of a message that is read: type, length and the two names at its start. */
const HEAD_BYTES = 5;

/** Splits a stream into messages; the client's first one has no type byte. */
function frameReader(hasStartup: boolean): (bytes: Buffer) => Frame[] {
  let rest: Buffer = Buffer.alloc(0);
  let isStartup = hasStartup;
  return (bytes) => {
    rest = rest.length === 0 ? bytes : Buffer.concat([rest, bytes]);
    const frames: Frame[] = [];
    for (;;) {
      if (isStartup) {
        if (rest.length < 4 || rest.length < rest.readUInt32BE(0)) return frames;
        rest = rest.subarray(rest.readUInt32BE(0));
        isStartup = false;
        continue;
      }
      if (rest.length < HEAD_BYTES || rest.length < 1 + rest.readUInt32BE(1)) return frames;
      const end = 1 + rest.readUInt32BE(1);
      frames.push({ type: String.fromCharCode(rest.readUInt8(0)), body: rest.subarray(HEAD_BYTES, end) });
      rest = rest.subarray(end);
    }
  };
}
