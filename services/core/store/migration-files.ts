import { readdirSync, readFileSync } from 'node:fs';

const FOLDER = new URL('./migrations/', import.meta.url);

export type Migration = { readonly version: number; readonly name: string };

/** The migrations of this build in their order: four digits, then words. */
export function migrationFiles(): Migration[] {
  return readdirSync(FOLDER)
    .filter((name) => /^\d{4}_.+\.sql$/.test(name))
    .toSorted()
    .map((name) => ({ version: Number.parseInt(name, 10), name }));
}

export function migrationSql(name: string): string {
  return readFileSync(new URL(name, FOLDER), 'utf8');
}

/** The schema that this build's services need: readiness compares it with the database's. */
export function requiredSchemaVersion(): number {
  return Math.max(...migrationFiles().map((file) => file.version));
}
