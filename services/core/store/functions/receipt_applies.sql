create or replace function receipt_applies(from_status text, is_final boolean, receipt text) returns boolean
language sql immutable parallel safe as $$
  select case from_status
    when 'unknown' then true
    when 'sent' then receipt in ('delivered', 'undelivered')
    when 'undelivered' then receipt = 'delivered' and not is_final
    else false
  end
$$;
