import { runProgram } from './run-program.ts';

export type ServerUser = { readonly uid: number; readonly gid: number };

/** Postgres refuses to run as root: returns the account to run it as, or undefined when this process is not root. */
export async function unprivilegedUser(): Promise<ServerUser | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  for (const name of ['postgres', 'nobody']) {
    const ids = await Promise.all([runProgram('id', ['-u', name]), runProgram('id', ['-g', name])]).catch(
      () => null,
    );
    if (ids !== null) return { uid: Number(ids[0]), gid: Number(ids[1]) };
  }
  throw new Error(
    'postgres cannot run as root: create a user named postgres or nobody, or run as another user',
  );
}
