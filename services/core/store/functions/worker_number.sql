-- Returns the number of this start of a worker. Its first claim assigns the number, committed with the claim.
create or replace function worker_number(by_worker text) returns integer
language plpgsql set search_path = despatch, pg_temp as $$
declare
  number integer;
begin
  for look in 1 .. 2 loop
    select w.id into number from workers w where w.name = by_worker;
    exit when number is not null;
    -- If two first claims run at once, the later one waits and then reads the row that the other has stored.
    insert into workers (name) values (by_worker) on conflict do nothing;
  end loop;
  return number;
end $$;
