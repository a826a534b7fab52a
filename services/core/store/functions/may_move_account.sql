-- Whether a provider account in one state may be moved to another by a `tenant`, or by a `worker`. Each statement that stores
-- the state of an account asks it. Written by `npm run gen` from core/domain/account/account-state.ts.
create or replace function may_move_account(who text, from_status text, to_status text) returns boolean
language sql immutable parallel safe as $$
  select case who
    when 'tenant' then case from_status
      when 'unverified' then to_status in ('unverified', 'disabled', 'deleted')
      when 'active' then to_status in ('unverified', 'disabled', 'deleted')
      when 'invalid' then to_status in ('unverified', 'disabled', 'deleted')
      when 'disabled' then to_status in ('active', 'deleted')
      else false
    end
    when 'worker' then case from_status
      when 'unverified' then to_status in ('active', 'invalid')
      when 'active' then to_status in ('invalid')
      when 'invalid' then to_status in ('active')
      else false
    end
    else false
  end
$$;

grant execute on function may_move_account(text, text, text) to despatch_api;
