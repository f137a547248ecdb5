// An engine that performs nothing, for turns that are replayed or ended as they were recorded and pinned.

import type { Adapter } from "../../engine/internal.ts";

import { engine } from "../../engine/internal.ts";

const offlineAdapter: Adapter = {
  provider: "none",
  stream: () => {
    throw new Error("no model is called for a turn that is only replayed");
  },
};

export const offlineEngine = engine({ adapter: offlineAdapter });
