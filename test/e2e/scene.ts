import type { Release } from './release.ts';
import type { Step } from './run-items.ts';
import type { Stage } from './stage.ts';

/** The arguments of a part of an item. */
export type Scene = { readonly stage: Stage; readonly step: Step; readonly release: Release };
