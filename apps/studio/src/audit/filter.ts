// The filter of the audit log, as the form has it and as the server gets it.

import type { AuditRoute } from "../route.ts";
import type { AuditAction } from "everturn/advanced";
import type { Inspector } from "everturn/client";

type Options = NonNullable<Parameters<Inspector["audit"]>[0]>;

/** How many rows a page has. */
const pageSize = 50;

/** The actions of this release; a newer one may have more. The compiler demands all of them. */
const listed: { readonly [A in AuditAction]: true } = {
  approve: true,
  deny: true,
  submit_results: true,
  cancel: true,
  recover: true,
  compact: true,
  undo_compaction: true,
  delete: true,
  export: true,
  key_create: true,
  key_rotate: true,
  key_revoke: true,
};
export const actions: readonly string[] = Object.keys(listed);

/** What the server is asked for. */
export function optionsOf({ actor, action, of: tenant, from, until, after }: AuditRoute): Options {
  return {
    limit: pageSize,
    ...(actor === null ? {} : { actor }),
    ...(action === null ? {} : { action }),
    ...(tenant === null ? {} : { tenant }),
    ...(from === null ? {} : { from }),
    ...(until === null ? {} : { until }),
    ...(after === null ? {} : { after }),
  };
}

/** A time as a field of the type `datetime-local` has it, in the time zone of the reader; `null`: empty. */
export function localTime(at: number | null): string {
  if (at === null) return "";
  const date = new Date(at);
  return new Date(at - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The time of such a field; `null`: it is empty or none. */
export function timeOf(text: string): number | null {
  const at = new Date(text).getTime();
  return Number.isFinite(at) && at >= 0 ? at : null;
}
