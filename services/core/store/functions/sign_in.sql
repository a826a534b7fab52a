-- `sign_user_in` for the services of the release before, which log no entries.
create or replace function sign_in(of_issuer text, of_subject text, of_email text, email_verified boolean, of_name text)
returns uuid
language sql security definer set search_path = despatch, pg_temp as $$
  select s.who from sign_user_in(of_issuer, of_subject, of_email, email_verified, of_name) s
$$;

grant execute on function sign_in(text, text, text, boolean, text) to despatch_api;
