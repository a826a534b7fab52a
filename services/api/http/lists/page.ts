import { z } from 'zod';
import { exampleOf } from '../example-of.ts';
import { warningsField } from '../routes/request-warnings.ts';

export const PAGE_SIZE_MAX = 200;

/** Query parameters of every list. */
export const pageQuery = {
  limit: z.int().min(1).max(PAGE_SIZE_MAX).default(50).describe('Number of items on a page.'),
  cursor: z.string().min(1).max(500).optional().describe('`nextCursor` of the previous page.'),
};

type Page<Item extends z.ZodType> = z.ZodObject<
  {
    items: z.ZodArray<Item>;
    nextCursor: z.ZodNullable<z.ZodString>;
  } & typeof warningsField
>;
const pages = new WeakMap<z.ZodType, z.ZodType>();

/**
 * Returns the body of a list: a page of `item`, named after it. The same item always gets the same schema, because a name can be
 * registered only once.
 */
export function pageOf<Item extends z.ZodType>(item: Item): Page<Item> {
  const known = pages.get(item);
  if (known !== undefined) return known as Page<Item>;
  const { id = '' } = item.meta() ?? {};
  const page = z
    .object({
      items: z.array(item).max(PAGE_SIZE_MAX),
      nextCursor: z.string().nullable().describe('`cursor` of the next page; null on the last one.'),
      ...warningsField,
    })
    .meta({
      id: `${id}Page`,
      description: 'One page of a list.',
      examples: [{ items: [exampleOf(item)], nextCursor: null }],
    });
  pages.set(item, page);
  return page;
}
