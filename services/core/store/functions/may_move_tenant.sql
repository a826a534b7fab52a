-- Whether a tenant in one state may be moved to another, or stay what it is. Each statement that stores the state of a tenant
-- asks it. Written by `npm run gen` from core/domain/tenant/tenant-state.ts.
create or replace function may_move_tenant(from_status text, to_status text) returns boolean
language sql immutable parallel safe as $$
  select case from_status
    when 'provisioning' then to_status in ('active', 'suspended', 'deleting')
    when 'active' then to_status in ('active', 'suspended', 'deleting')
    when 'suspended' then to_status in ('active', 'suspended', 'deleting')
    when 'deleting' then to_status in ('deleted')
    else false
  end
$$;
