-- The number of the last attempt of which the provider may have a copy of the message, from the columns of its result: the
-- accepted attempt, or, if a repetition was refused after a call without an answer, that call. `accepted_event` is null if the
-- last attempt was not accepted. It has no query of its own, so that Postgres inlines it: most messages have one attempt.
create or replace function last_copy(seq bigint, purge_on date, status text, attempt integer, sent_attempt integer,
  accepted_event bigint) returns integer language sql stable parallel safe as $$
  select case
    when sent_attempt is not null then sent_attempt
    when accepted_event is not null or attempt = 1 or status not in ('sent', 'delivered', 'undelivered', 'unknown') then attempt
    else coalesce(last_unanswered(seq, purge_on), attempt)
  end
$$;
