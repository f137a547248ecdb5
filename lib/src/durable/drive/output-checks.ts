// Validations of large structured outputs. A validation runs on the event loop and cannot be interrupted; one of an
// output with thousands of parts takes tens of milliseconds, and a caller can choose the schema and ask for such an
// output. Without pauses, the validations of one tenant would delay all requests of others.
//
// Theory of operation
//   `limited` replaces the JSON Schema of a plan by a Standard Schema that validates with it. Large outputs are
//   validated one at a time in this process, tenants round robin. After each, the event loop is left to others for as
//   long as the validation took, so validations take at most half of its time. The verdict is that of the JSON Schema
//   itself.

import type { JsonSchema, StandardSchema } from "../../core/engine/internal.ts";
import type { Plan } from "../../core/run/internal.ts";

import { monotonicNow, nextTask, systemClock } from "../../core/clock/clock.ts";
import { checkValue, isStandardSchema } from "../../core/engine/internal.ts";
import { FairShare } from "../../core/fair/fair-share.ts";
import { json, read } from "../../core/model/parse/reading.ts";

/** The length of an output whose validation may take milliseconds, in characters. */
const largeLength = 4096;

/** The longest pause after a validation, in milliseconds. */
const longestPauseMs = 500;

/** The validations of all turns of a process. */
export class OutputChecks {
  /** One validation at a time. */
  readonly #permits = new FairShare({ total: 1 });

  /**
   * The plan, whose large outputs are validated in the turn of the tenant. A Standard Schema is code of the program,
   * which may wait for anything: it stays as it is.
   */
  limited(plan: Plan, tenant: string): Plan {
    const { output } = plan;
    if (output === null || isStandardSchema(output.schema)) return plan;
    return { ...plan, output: { ...output, schema: this.#standardSchema(output.schema, tenant) } };
  }

  #standardSchema(schema: JsonSchema, tenant: string): StandardSchema {
    const validate: StandardSchema["~standard"]["validate"] = async (value) => {
      const parsed = read(json, value);
      if (!("value" in parsed)) return { issues: parsed.issues };
      const check = () => checkValue(schema, parsed.value);
      const isLarge = JSON.stringify(parsed.value).length > largeLength;
      const checked = await (isLarge ? this.#run(tenant, check) : check());
      return checked.ok ? { value: checked.value } : { issues: checked.issues };
    };
    return { "~standard": { version: 1, vendor: "everturn", validate } };
  }

  async #run<T>(tenant: string, check: () => Promise<T>): Promise<T> {
    const { granted, release } = this.#permits.request(tenant);
    await granted;
    // Requests that have arrived meanwhile come first.
    await nextTask();
    const began = monotonicNow(systemClock);
    try {
      return await check();
    } finally {
      const tookMs = monotonicNow(systemClock) - began;
      void systemClock.sleep(Math.min(tookMs, longestPauseMs)).then(release, release);
    }
  }
}
