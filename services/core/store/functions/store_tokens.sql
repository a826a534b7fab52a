-- Stores how many tokens of a second an account or endpoint has used up. `counted` is its newest row: updated in place, or after
-- a few dozen updates moved to the next slot (ADR 25); null where there is none. The caller has locked the counter.
create or replace function store_tokens(of_owner uuid, counted account_rates, of_second bigint, used_up integer) returns void
language plpgsql set search_path = despatch, pg_temp as $$
begin
  if counted.slot is null then
    insert into account_rates (account_id, second, used, uses) values (of_owner, of_second, used_up, 1);
  else
    update account_rates r set second = of_second, used = used_up, slot = next_slot(r.slot, r.uses), uses = next_uses(r.uses)
    where r.account_id = of_owner and r.slot = counted.slot;
  end if;
end $$;
