// The header with which an administrator acts in a tenant.

/** The headers of a request in a tenant; `null`: in that of the key. */
export function tenantHeaders(tenant: string | null): { readonly [name: string]: string } {
  return tenant === null ? {} : { "Everturn-Tenant": encodeURIComponent(tenant) };
}
