-- Numbers an endpoint within its tenant, under a lock on the tenant's row: one above the tenant's highest number, or, if that is
-- the maximum, the lowest free number. A number may be reused, because delivery ids are bound to the endpoint's own id.
create or replace function number_endpoint() returns trigger
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
begin
  perform from tenants t where t.id = new.tenant_id for no key update;
  new.number := coalesce(
    (select w.number from webhook_endpoints w where w.tenant_id = new.tenant_id order by w.number desc limit 1), 0) + 1;
  if new.number > 4194303 then
    new.number := case
      when not exists (select from webhook_endpoints w where w.tenant_id = new.tenant_id and w.number = 1) then 1
      else (
        select w.number + 1 from webhook_endpoints w where w.tenant_id = new.tenant_id
          and not exists (select from webhook_endpoints x where x.tenant_id = new.tenant_id and x.number = w.number + 1)
        order by w.number limit 1)
    end;
  end if;
  return new;
end $$;

create or replace trigger endpoint_number before insert on webhook_endpoints
  for each row execute function number_endpoint();
