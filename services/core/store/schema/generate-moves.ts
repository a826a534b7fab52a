import {
  ACCOUNT_MOVE_NAMES,
  ACCOUNT_MOVES,
  ACCOUNT_STATUSES,
  type AccountMove,
  type AccountStatus,
} from '#core/domain/account/account-state.ts';
import {
  ENDPOINT_MOVE_NAMES,
  ENDPOINT_MOVES,
  ENDPOINT_STATUSES,
  type EndpointMove,
  type EndpointStatus,
} from '#core/domain/webhooks/endpoint-state.ts';
import { LIVE_STATES, MESSAGE_MOVES } from '#core/domain/message/message-state.ts';
import { TENANT_MOVES } from '#core/domain/tenant/tenant-state.ts';

type SqlFile = { readonly path: string; readonly text: string };

/**
 * Returns the tables of moves as SQL functions, which every statement that moves a message, an endpoint, an account or a tenant
 * calls. Paths are relative to the project's root.
 */
export function generateMoves(): SqlFile[] {
  return [
    sqlFile('may_move', [
      '-- Whether a message in one state may be moved to another. Each statement that moves messages asks it, and passes over',
      '-- those that may not be moved. Written by `npm run gen` from core/domain/message/message-state.ts.',
      'create or replace function may_move(from_status text, to_status text) returns boolean',
      'language sql immutable parallel safe as $$',
      ...casesOf(MESSAGE_MOVES),
      '$$;',
    ]),
    sqlFile('may_move_tenant', [
      '-- Whether a tenant in one state may be moved to another, or stay what it is. Each statement that stores the state of a tenant',
      '-- asks it. Written by `npm run gen` from core/domain/tenant/tenant-state.ts.',
      'create or replace function may_move_tenant(from_status text, to_status text) returns boolean',
      'language sql immutable parallel safe as $$',
      ...casesOf(TENANT_MOVES),
      '$$;',
    ]),
    sqlFile('is_live', [
      '-- Whether a message in this state has its row in `live_messages`, and not in `message_results`. Written by `npm run gen`',
      '-- from core/domain/message/message-state.ts.',
      'create or replace function is_live(status text) returns boolean',
      'language sql immutable parallel safe as $$',
      `  select status in (${listOf(LIVE_STATES)})`,
      '$$;',
    ]),
    sqlFile('may_move_endpoint', [
      '-- Whether a webhook endpoint in one state may be moved to another by a `tenant`, or by a `worker`, to whom it may also stay what it',
      '-- is. Each statement that stores the state of an endpoint asks it. Written by `npm run gen` from core/domain/webhooks/endpoint-state.ts.',
      'create or replace function may_move_endpoint(who text, from_status text, to_status text) returns boolean',
      'language sql immutable parallel safe as $$',
      ...casesByActor(ENDPOINT_STATUSES, endpointStatusesAfter),
      '$$;',
      '',
      'grant execute on function may_move_endpoint(text, text, text) to despatch_api;',
    ]),
    sqlFile('may_move_account', [
      '-- Whether a provider account in one state may be moved to another by a `tenant`, or by a `worker`. Each statement that stores',
      '-- the state of an account asks it. Written by `npm run gen` from core/domain/account/account-state.ts.',
      'create or replace function may_move_account(who text, from_status text, to_status text) returns boolean',
      'language sql immutable parallel safe as $$',
      ...casesByActor(ACCOUNT_STATUSES, accountStatusesAfter),
      '$$;',
      '',
      'grant execute on function may_move_account(text, text, text) to despatch_api;',
    ]),
  ];
}

/** Returns a query whether a table has a move from `from_status` to `to_status`. */
function casesOf(moves: Readonly<Record<string, readonly string[]>>): string[] {
  return [
    '  select case from_status',
    ...Object.entries(moves)
      .filter(([, next]) => next.length > 0)
      .map(([from, next]) => `    when '${from}' then to_status in (${listOf(next)})`),
    '    else false',
    '  end',
  ];
}

/** Returns a query whether `who` may make a move from `from_status` to `to_status`. */
function casesByActor<State extends string>(
  states: readonly State[],
  after: (by: 'tenant' | 'worker', from: State) => readonly string[],
): string[] {
  return [
    '  select case who',
    ...(['tenant', 'worker'] as const).flatMap((by) => [
      `    when '${by}' then case from_status`,
      ...states
        .map((from) => [from, after(by, from)] as const)
        .filter(([, next]) => next.length > 0)
        .map(([from, next]) => `      when '${from}' then to_status in (${listOf(next)})`),
      '      else false',
      '    end',
    ]),
    '    else false',
    '  end',
  ];
}

function accountStatusesAfter(by: AccountMove['by'], from: AccountStatus): AccountMove['to'][] {
  const moves: readonly AccountMove[] = ACCOUNT_MOVE_NAMES.map((name) => ACCOUNT_MOVES[name]);
  return moves.filter((move) => move.by === by && move.from.includes(from)).map(({ to }) => to);
}

/** Leaves out deletion, because a deleted endpoint has no state. */
function endpointStatusesAfter(by: EndpointMove['by'], from: EndpointStatus): EndpointStatus[] {
  const after = ENDPOINT_MOVE_NAMES.flatMap((name): EndpointStatus[] => {
    const { by: who, from: states, to } = ENDPOINT_MOVES[name];
    if (who !== by || !states.includes(from) || to === 'deleted') return [];
    if (to === 'same') return by === 'worker' ? [from] : [];
    return [to];
  });
  return ENDPOINT_STATUSES.filter((status) => after.includes(status));
}

function sqlFile(name: string, lines: readonly string[]): SqlFile {
  return { path: `services/core/store/functions/${name}.sql`, text: `${lines.join('\n')}\n` };
}

function listOf(states: readonly string[]): string {
  return states.map((state) => `'${state}'`).join(', ');
}
