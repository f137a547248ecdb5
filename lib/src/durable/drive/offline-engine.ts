// An engine whose adapter refuses every call. Turns that are only replayed, or ended without their engine (Q16), are
// planned with it.

import type { Adapter, Engine } from "../../core/engine/internal.ts";
import type { TurnStart } from "../rows/values.ts";
import type { RuntimeContext } from "./context.ts";

import { engine } from "../../core/engine/internal.ts";

const offlineAdapter: Adapter = {
  provider: "none",
  stream: () => {
    throw new Error("a turn that is only replayed must not call a model");
  },
};

/** The engine for replays: everything it needs is recorded or pinned. */
export const offlineEngine = engine({ adapter: offlineAdapter });

/**
 * The engine that ends a turn: it performs nothing, and has the protocol and the projector of the turn's engine, if
 * this process has that engine.
 */
export function endingEngine(
  { engines }: Pick<RuntimeContext, "engines">,
  { engine: name }: Pick<TurnStart, "engine">,
): Engine {
  const own = Object.hasOwn(engines, name) ? engines[name] : undefined;
  return own === undefined ? offlineEngine : { ...offlineEngine, protocol: own.protocol, projector: own.projector };
}
