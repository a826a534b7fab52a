-- Records an authentication result of a send that used this version of the account; a result of another version is ignored.
-- Refusals in a row make an account invalid; one success makes it active. `why` is the reason of a refusal. Returns the account's
-- new status, null if it did not change.
create or replace function note_account_result(for_account uuid, of_version integer, authenticated boolean, why text) returns text
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  -- So many refusals in a row make an account invalid.
  refusals_max constant integer := 3;
  p provider_accounts;
  moved text;
begin
  select * into p from provider_accounts where id = for_account and version = of_version for update;
  if p.id is null then
    return null;
  end if;
  if authenticated then
    moved := case when may_move_account('worker', p.status, 'active') then 'active' end;
    update provider_accounts set auth_failures = 0, status = coalesce(moved, status),
      status_reason = case when moved is null then status_reason end,
      verified_at = case when moved is null then verified_at else now() end, updated_at = now()
    where id = for_account and (auth_failures > 0 or moved is not null);
    if p.status = 'invalid' then
      perform wake_deferred(for_account);
    end if;
  else
    moved := case when p.auth_failures + 1 >= refusals_max and may_move_account('worker', p.status, 'invalid') then 'invalid' end;
    update provider_accounts set auth_failures = auth_failures + 1, status = coalesce(moved, status),
      status_reason = case when moved is null then status_reason else why end,
      verified_at = case when moved is null then verified_at end, updated_at = now()
    where id = for_account;
  end if;
  return moved;
end $$;

grant execute on function note_account_result(uuid, integer, boolean, text) to despatch_worker;
