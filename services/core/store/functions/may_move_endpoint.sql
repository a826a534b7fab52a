-- Whether a webhook endpoint in one state may be moved to another by a `tenant`, or by a `worker`, to whom it may also stay what it
-- is. Each statement that stores the state of an endpoint asks it. Written by `npm run gen` from core/domain/webhooks/endpoint-state.ts.
create or replace function may_move_endpoint(who text, from_status text, to_status text) returns boolean
language sql immutable parallel safe as $$
  select case who
    when 'tenant' then case from_status
      when 'active' then to_status in ('paused')
      when 'failing' then to_status in ('active', 'paused')
      when 'paused' then to_status in ('active')
      when 'disabled' then to_status in ('active')
      else false
    end
    when 'worker' then case from_status
      when 'active' then to_status in ('active', 'failing', 'disabled')
      when 'failing' then to_status in ('active', 'failing', 'disabled')
      else false
    end
    else false
  end
$$;

grant execute on function may_move_endpoint(text, text, text) to despatch_api;
