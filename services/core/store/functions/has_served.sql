-- Whether the rows of a weekly partition are no longer needed. Rows of messages are stored under the Monday on which their
-- retention ends. An idempotency generation is dropped on the day on which its youngest key is seven days old; from then on no
-- look-up reads it. A day later could be after the record of a message that is kept for eight days.
create or replace function has_served(parent text, monday date, today date) returns boolean
language sql immutable parallel safe as $$
  select case parent when 'idempotency_keys' then monday + 14 <= today else monday <= today end
$$;
