create or replace function user_facts(of_user uuid) returns table (id uuid, issuer text, subject text, email text, name text)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select u.id, u.issuer, u.subject, u.email, u.name from users u where u.id = of_user
$$;

grant execute on function user_facts(uuid) to despatch_api;
