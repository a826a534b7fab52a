import type { Release } from './release.ts';
import type { Step } from './run-items.ts';
import type { Stage } from './stage.ts';

/** What a part of an item needs. */
export type Scene = { readonly stage: Stage; readonly step: Step; readonly release: Release };
