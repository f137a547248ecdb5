// The inspection routes of the HTTP API as functions: what the studio and similar pages read. The server offers these
// routes with its option `inspect`.

import type { SearchHit } from "../../core/model/internal.ts";
import type { AdminVerbs, CallOptions, InspectionVerbs, RecordVerbs } from "../contract/internal.ts";
import type { ClientOptions } from "./types.ts";

import { adminOperations, inspectionOperations, recordOperations } from "../contract/internal.ts";
import { call, senderOf, verbsOf } from "./requests.ts";

/** Reads what a server knows about its turns, engines and workers. {@link createInspector} creates it. */
export type Inspector = InspectionVerbs &
  RecordVerbs &
  AdminVerbs & {
    /** Messages that contain all words of a query, of the newest sessions first. Only if the storage offers it. */
    readonly search: (
      text: string,
      options?: CallOptions & { readonly limit?: number },
    ) => Promise<readonly SearchHit[]>;
  };

/**
 * Creates a reader of the inspection routes of a server, which offers them with its option `inspect`. It takes the
 * options of `createClient`.
 *
 * @example
 * ```ts
 * import { createInspector } from "everturn/client";
 *
 * const inspector = createInspector({ url: "http://localhost:4242", token: "a-secret-bearer-token" });
 * typeof inspector.timeline; // => "function"
 * ```
 */
export function createInspector(options: ClientOptions): Inspector {
  const sender = senderOf(options);
  return {
    ...verbsOf(sender, inspectionOperations),
    ...verbsOf(sender, recordOperations),
    ...verbsOf(sender, adminOperations),
    search: async (text, options) =>
      (await call(sender, inspectionOperations.search, [], { q: text, ...options })).items,
  };
}
