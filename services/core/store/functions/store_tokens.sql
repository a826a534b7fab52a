-- Stores that an account or endpoint used up `taking` tokens. `counted` is its newest row: updated in place, or after a few dozen
-- updates moved to the next slot (ADR 25); null where there is none. The caller has locked the counter. Ticks in the future are
-- replaced by the current one even if nothing is taken: they would otherwise count until the clock is back where it was.
create or replace function store_tokens(of_owner uuid, counted account_rates, at_now timestamptz, taking integer) returns void
language plpgsql set search_path = despatch, pg_temp as $$
declare
  now_tick bigint := token_tick(at_now);
  ticks_kept bigint[];
  taken_kept integer[];
begin
  if taking = 0 and coalesce(counted.ticks[cardinality(counted.ticks)] <= now_tick, true) then
    return;
  end if;
  select array_agg(k.tick order by k.tick), array_agg(k.taken order by k.tick) into ticks_kept, taken_kept from (
    select least(u.tick, now_tick) as tick, sum(u.taken)::integer as taken
    from unnest(counted.ticks || now_tick, counted.taken || taking) as u (tick, taken)
    where u.tick >= now_tick - ticks_per_second() group by 1) k;
  if counted.slot is null then
    insert into account_rates (account_id, ticks, taken, uses) values (of_owner, ticks_kept, taken_kept, 1);
  else
    update account_rates r set ticks = ticks_kept, taken = taken_kept, slot = next_slot(r.slot, r.uses), uses = next_uses(r.uses)
    where r.account_id = of_owner and r.slot = counted.slot;
  end if;
end $$;
