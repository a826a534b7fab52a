-- Whether a message in this state has its row in `live_messages`, and not in `message_results`. Written by `npm run gen`
-- from core/domain/message/message-state.ts.
create or replace function is_live(status text) returns boolean
language sql immutable parallel safe as $$
  select status in ('scheduled', 'queued', 'held', 'sending', 'deferred')
$$;
