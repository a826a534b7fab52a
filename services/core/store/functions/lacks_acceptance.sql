-- Whether a message's result stores no acceptance: neither its last attempt nor an earlier one (`sent_attempt`) was accepted, so
-- its account is only the last one that was called.
create or replace function lacks_acceptance(started_at timestamptz, sent_attempt integer) returns boolean
language sql immutable parallel safe as $$
  select started_at is null and sent_attempt is null
$$;
