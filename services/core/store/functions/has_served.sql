-- Whether the rows of a weekly partition are no longer needed. Rows of messages are stored under the Monday on which their
-- retention ends. An idempotency generation is dropped when its youngest key is older than seven days.
create or replace function has_served(parent text, monday date, today date) returns boolean
language sql immutable parallel safe as $$
  select case parent when 'idempotency_keys' then monday + 14 < today else monday <= today end
$$;
