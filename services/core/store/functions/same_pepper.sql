-- Whether a process has the pepper that this database is used with. The first process to ask decides which that is.
create or replace function same_pepper(pepper text, of_process bytea) returns boolean
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  known bytea;
begin
  for look in 1 .. 2 loop
    select p.fingerprint into known from pepper_fingerprints p where p.name = pepper;
    exit when known is not null;
    -- If two processes ask first at once, the later one waits and then reads the row that the other has stored.
    insert into pepper_fingerprints (name, fingerprint) values (pepper, of_process) on conflict do nothing;
  end loop;
  return known = of_process;
end $$;

grant execute on function same_pepper(text, bytea) to despatch_api, despatch_worker;
