-- Whether a message in one state may be moved to another. Each statement that moves messages asks it, and passes over
-- those that may not be moved. Written by `npm run gen` from core/domain/message/message-state.ts.
create or replace function may_move(from_status text, to_status text) returns boolean
language sql immutable parallel safe as $$
  select case from_status
    when 'scheduled' then to_status in ('queued', 'held', 'canceled', 'expired')
    when 'queued' then to_status in ('sending', 'sent', 'held', 'suppressed', 'failed', 'canceled', 'expired', 'unknown')
    when 'held' then to_status in ('queued', 'scheduled', 'deferred', 'sent', 'canceled')
    when 'sending' then to_status in ('sent', 'deferred', 'failed', 'unknown', 'queued')
    when 'deferred' then to_status in ('sending', 'sent', 'held', 'suppressed', 'failed', 'canceled', 'expired', 'unknown')
    when 'sent' then to_status in ('queued', 'delivered', 'undelivered', 'unknown')
    when 'unknown' then to_status in ('sent', 'delivered', 'undelivered')
    when 'undelivered' then to_status in ('delivered')
    else false
  end
$$;
