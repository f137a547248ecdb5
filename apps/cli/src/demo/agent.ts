// Builds the engine of the demo. All processes build the same one: workers drive turns with it, and the process that
// accepts messages needs it for the environment that a turn is pinned to.

import type { SideEffectLog } from "./side-effect-log.ts";
import type { Environment } from "@everturn/server";
import type { Adapter, Engine } from "everturn";

import { engine } from "everturn";

import { realEngine } from "./real-model.ts";
import { instructions, refundTools } from "./refund-scenario.ts";
import { demoModel, scriptedName } from "./scripted-model.ts";

/**
 * A short lease, so that another worker takes over soon after the kill; long enough for a busy machine to renew it in
 * time.
 */
export const lease = { ttlMs: 1200, renewMs: 200 } as const;

export type AgentSetup = {
  /** `provider:model`; `null`: the scripted model. */
  readonly model: string | null;
  readonly config: string | null;
  readonly environment: Environment;
  /** The log of model calls and tool runs; `null`: the process performs none. */
  readonly log: SideEffectLog | null;
};

export async function demoAgent({ model, config, environment, log }: AgentSetup): Promise<Engine> {
  const base =
    model === null
      ? engine({ adapter: demoModel(), model: scriptedName })
      : await realEngine({ model, config, environment });
  return {
    ...base,
    adapter: base.adapter === null ? null : withLog(base.adapter, log),
    instructions,
    tools: refundTools(log),
    options: { maxTurns: 12 },
  };
}

/** Wraps an adapter so that it writes a line to the log at the start and at the end of each call. */
function withLog(adapter: Adapter, log: SideEffectLog | null): Adapter {
  return {
    ...adapter,
    stream: (request, call) => ({
      async *[Symbol.asyncIterator]() {
        log?.modelCallStarted();
        yield* adapter.stream(request, call);
        log?.modelCallCompleted();
      },
    }),
  };
}
