-- Returns how many tokens were used up within the second before `at_now`, by an account's or endpoint's newest row; 0 where there is
-- none. Tokens of a tick count until a second after the tick's end. A tick in the future means that the clock has gone back: its
-- tokens were used just now.
create or replace function tokens_used(counted account_rates, at_now timestamptz) returns integer
language sql immutable set search_path = despatch, pg_temp as $$
  select coalesce(sum(u.taken), 0)::integer from unnest(counted.ticks, counted.taken) as u (tick, taken)
  where u.tick >= token_tick(at_now) - ticks_per_second()
$$;
