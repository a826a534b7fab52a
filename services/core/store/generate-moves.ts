import { LIVE_STATES, MESSAGE_MOVES } from '#core/domain/message-state.ts';

type SqlFile = { readonly path: string; readonly text: string };

/** The table of moves as SQL functions, which every statement that moves a message asks. Paths are from the project's root. */
export function generateMoves(): SqlFile[] {
  const moves = Object.entries<readonly string[]>(MESSAGE_MOVES)
    .filter(([, next]) => next.length > 0)
    .map(([from, next]) => `    when '${from}' then to_status in (${listOf(next)})`);
  return [
    sqlFile('may_move', [
      '-- Whether a message in one state may be moved to another. Each statement that moves messages asks it, and passes over',
      '-- those that may not be moved. Written by `npm run gen` from core/domain/message-state.ts.',
      'create or replace function may_move(from_status text, to_status text) returns boolean',
      'language sql immutable parallel safe as $$',
      '  select case from_status',
      ...moves,
      '    else false',
      '  end',
      '$$;',
    ]),
    sqlFile('is_live', [
      '-- Whether a message in this state has its row in `live_messages`, and not in `message_results`. Written by `npm run gen`',
      '-- from core/domain/message-state.ts.',
      'create or replace function is_live(status text) returns boolean',
      'language sql immutable parallel safe as $$',
      `  select status in (${listOf(LIVE_STATES)})`,
      '$$;',
    ]),
  ];
}

function sqlFile(name: string, lines: readonly string[]): SqlFile {
  return { path: `services/core/store/functions/${name}.sql`, text: `${lines.join('\n')}\n` };
}

function listOf(states: readonly string[]): string {
  return states.map((state) => `'${state}'`).join(', ');
}
