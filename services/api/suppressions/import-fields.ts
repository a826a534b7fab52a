const FIELDS = ['channel', 'address', 'reason', 'scope', 'expiresAt', 'hashed'] as const;
export type ImportField = (typeof FIELDS)[number];
/** Fields that only exports have. */
const EXPORT_FIELDS = ['id', 'source', 'messageId', 'createdAt'];
/** The fields by their names in both spellings; null for those that are ignored. */
export const IMPORT_FIELDS: ReadonlyMap<string, ImportField | null> = new Map(
  [
    ...FIELDS.map((name) => [name, name] as const),
    ...EXPORT_FIELDS.map((name) => [name, null] as const),
  ].flatMap(([name, field]) => [
    [name, field],
    [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), field],
  ]),
);
