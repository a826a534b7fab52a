-- Stores how many tokens of a second an account or endpoint has used up. `counted` is its newest row: updated in place, or after
-- a few dozen updates replaced by a row of the next slot (ADR 25). The caller has locked the counter.
create or replace function store_tokens(of_owner uuid, counted account_rates, of_second bigint, used_up integer) returns void
language plpgsql set search_path = despatch, pg_temp as $$
begin
  if counted.uses < uses_per_slot() then
    update account_rates r set second = of_second, used = used_up, uses = r.uses + 1
    where r.account_id = of_owner and r.slot = counted.slot;
  else
    delete from account_rates r where r.account_id = of_owner and r.slot = counted.slot;
    insert into account_rates (account_id, second, used, uses, slot)
    values (of_owner, of_second, used_up, 1, coalesce(counted.slot, 0) + 1);
  end if;
end $$;
