// The filter of the audit log, as the form has it and as the server gets it.

import type { AuditRoute } from "../route.ts";
import type { Inspector } from "everturn/client";

type Options = NonNullable<Parameters<Inspector["audit"]>[0]>;

/** How many rows a page has. */
const pageSize = 50;

/** The actions of this release; a newer one may have more. */
export const actions = [
  "approve",
  "deny",
  "submit_results",
  "cancel",
  "delete",
  "export",
  "key_create",
  "key_rotate",
  "key_revoke",
] as const;

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
