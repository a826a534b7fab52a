-- Records the result of a credential check of this version of the account: `valid`, `invalid`, or `unknown` if the provider could
-- not be asked, which does not speak for or against the account. Ignored if the account has changed since, because the change
-- requested a check of its own, and if another check was requested since. Returns the account's new status, null if it did not
-- change. Receipt calls of the account whose signature was refused are due at once: its settings or its secret may have been
-- mended.
create or replace function note_verification(for_account uuid, of_version integer, result text, why text) returns text
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
declare
  before text;
  moved text;
begin
  select p.status into before from provider_accounts p
  -- Tests break this (mutant: verified-version): a check counts only for the version that was checked.
  where p.id = for_account and p.version = of_version and p.status not in ('disabled', 'deleted') for update;
  if before is null then
    return null;
  end if;
  moved := case when result = 'valid' and may_move_account('worker', before, 'active') then 'active'
    when result = 'invalid' and may_move_account('worker', before, 'invalid') then 'invalid' end;
  update provider_accounts set verify_requested_at = null, updated_at = now(), status = coalesce(moved, status),
    verification_at = now(), verification_result = result, verification_reason = why,
    status_reason = case when result = 'valid' then null
      when result = 'invalid' or before = 'unverified' then why else status_reason end,
    verified_at = case result when 'valid' then now() when 'unknown' then verified_at end,
    auth_failures = case when result = 'valid' then 0 else auth_failures end
  where id = for_account;
  if result = 'valid' then
    perform wake_deferred(for_account);
  end if;
  -- A transaction that settles a call may wait for the account, so locked calls are left to their own time.
  update receipt_calls c set due_at = clock_timestamp() where c.id = any (array(
    select x.id from receipt_calls x where x.account_id = for_account and x.refused and x.due_at > clock_timestamp()
    for update skip locked));
  return moved;
end $$;

grant execute on function note_verification(uuid, integer, text, text) to despatch_worker;
