// An engine whose adapter refuses every call. Turns that are only replayed, or ended without their engine (Q16), are planned with it.

import type { Adapter } from "../../engine/internal.ts";

import { engine } from "../../engine/internal.ts";

const offlineAdapter: Adapter = {
  provider: "none",
  stream: () => {
    throw new Error("a turn that is only replayed must not call a model");
  },
};

/** The engine for replays: everything it needs is recorded or pinned. */
export const offlineEngine = engine({ adapter: offlineAdapter });
