import type { Sql } from '#core/platform/postgres/postgres.ts';

/** Functions read the former values of rows that they update (`RETURNING old.…`), which Postgres supports from 18 on (ADR 33). */
export const POSTGRES_MIN = 18;

class ServerVersionError extends Error {
  override readonly name = 'ServerVersionError';
}

/**
 * Refuses a server that would store the schema but fail when functions are called.
 * @throws ServerVersionError
 */
export async function assertServerVersion(sql: Sql): Promise<void> {
  const [server] = await sql<{ number: number; text: string }[]>`
    select current_setting('server_version_num')::integer as number, current_setting('server_version') as text`;
  const fault = server && versionFault(server.number, server.text);
  if (fault !== undefined) throw new ServerVersionError(fault);
}

/**
 * Returns the error message for a server that is too old.
 * @param number `server_version_num`: the major version times 10,000, plus the minor version.
 * @returns undefined for a server that is new enough.
 */
export function versionFault(number: number, text: string): string | undefined {
  return number >= POSTGRES_MIN * 10_000
    ? undefined
    : `Despatch needs Postgres ${POSTGRES_MIN} or newer, and the server is ${text}. Nothing was changed.`;
}
