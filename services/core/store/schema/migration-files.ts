import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';

const MIGRATIONS = new URL('../migrations/', import.meta.url);
const FUNCTIONS = new URL('../functions/', import.meta.url);

export type Migration = { readonly version: number; readonly name: string };

/** One SQL function (or several overloads) with its grants, written so that it can be applied repeatedly. */
export type FunctionFile = {
  /** The name of the function, and of the file without its extension. */
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of the text, in hexadecimal. */
  readonly hash: string;
};

/** The schema version that a build needs. */
export type SchemaVersion = {
  /** Number of its last migration. */
  readonly migration: number;
  /** Digest of all its functions, in hexadecimal. */
  readonly functions: string;
};

/** Returns the migrations of this build in order: four digits, then words. */
export function migrationFiles(): Migration[] {
  return readdirSync(MIGRATIONS)
    .filter((name) => /^\d{4}_.+\.sql$/.test(name))
    .toSorted()
    .map((name) => ({ version: Number.parseInt(name, 10), name }));
}

export function migrationSql(name: string): string {
  return readFileSync(new URL(name, MIGRATIONS), 'utf8');
}

/** Returns the SQL functions of this build, by name. */
export function functionFiles(): FunctionFile[] {
  return readdirSync(FUNCTIONS)
    .filter((file) => file.endsWith('.sql'))
    .toSorted()
    .map((file) =>
      functionFile(file.slice(0, -'.sql'.length), readFileSync(new URL(file, FUNCTIONS), 'utf8')),
    );
}

export function functionFile(name: string, sql: string): FunctionFile {
  return { name, sql, hash: sha256(sql) };
}

/** Returns a digest of names and texts that does not depend on their order. */
export function functionsDigest(files: readonly FunctionFile[]): string {
  return sha256(
    files
      .map(({ name, hash }) => `${name} ${hash}\n`)
      .toSorted()
      .join(''),
  );
}

/** Returns the schema version that this build's services need: readiness compares it with the database's. */
export function requiredSchemaVersion(): SchemaVersion {
  return {
    migration: Math.max(...migrationFiles().map((file) => file.version)),
    functions: functionsDigest(functionFiles()),
  };
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
